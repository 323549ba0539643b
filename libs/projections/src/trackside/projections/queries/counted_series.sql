-- Which of the series $1 are counted.
SELECT series FROM metric_totals WHERE series = ANY($1)
