SELECT count(*) FROM summary_briefs
