-- The Pareto front of each search: `objectives` are names in their order, `objective_values`
-- the trial's values in the same order, `first_value` and `second_value` for the axes of a chart.
SELECT
    trials.search_id, trials.trial,
    told.objectives, told.directions, trials.objective_values,
    told.objectives[1] AS first_objective, trials.objective_values[1] AS first_value,
    told.objectives[2] AS second_objective, trials.objective_values[2] AS second_value,
    trials.parameters,
    time_of(trials.ended_ms) AS ended_at
FROM searches
CROSS JOIN LATERAL (
    SELECT
        array_agg(objective ->> 'name' ORDER BY number) AS objectives,
        array_agg(objective ->> 'direction' ORDER BY number) AS directions
    FROM jsonb_array_elements(searches.spec -> 'objectives') WITH ORDINALITY AS one (objective, number)
) AS told
JOIN trials ON trials.search_id = searches.search_id AND trials.trial = ANY (searches.pareto_front)
