GRANT USAGE ON SCHEMA dashboards TO trackside_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA dashboards TO trackside_reader
