-- The values of each trial that succeeded with a number for each objective, by the names of the objectives:
-- 'default' in a search without named objectives. Trials with parameters outside of the space are left out.
SELECT
    trials.search_id, trials.trial, named.objective, named.number AS objective_number, named.direction,
    coalesce(trials.objective_values[named.number], CASE named.number WHEN 1 THEN trials.value END) AS value,
    trials.trial = ANY (searches.pareto_front) AS in_pareto_front,
    time_of(trials.ended_ms) AS ended_at, trials.ended_ms
FROM trials
JOIN searches ON searches.search_id = trials.search_id
CROSS JOIN LATERAL (
    SELECT
        objective ->> 'name' AS objective, objective ->> 'direction' AS direction, number::integer AS number
    FROM jsonb_array_elements(searches.spec -> 'objectives') WITH ORDINALITY AS told (objective, number)
    UNION ALL
    SELECT 'default', searches.direction, 1
    WHERE coalesce(jsonb_array_length(searches.spec -> 'objectives'), 0) = 0
) AS named
WHERE trials.status = 'SUCCEEDED' AND trials.outside = '{}' AND array_position(trials.objective_values, NULL) IS NULL
