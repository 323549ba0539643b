-- The part of the variance of an objective's values that the groups of one parameter explain: texts by value,
-- sub-spaces by name, numbers by decile, fewer groups while there are fewer than 50
-- trials. Corrected for the number of groups, as otherwise a parameter without any effect seemed to have one. Of a search
-- with more than 4,000 trials about 2,000 are used, always the same ones: the fraction does not need more.
-- Values are divided by the largest, which changes no fraction: squares of 1e300 or of 1e-300 are errors.
WITH told AS (
    SELECT
        one.search_id, one.objective, CASE WHEN abs(one.value) < 1e-200 THEN 0 ELSE one.value END AS value, given.key AS parameter, jsonb_typeof(given.value) AS kind,
        CASE jsonb_typeof(given.value)
            WHEN 'object' THEN coalesce(given.value -> '_name', given.value)
            ELSE given.value
        END AS given
    FROM dashboards.objective_values AS one
    JOIN searches ON searches.search_id = one.search_id
    JOIN trials ON trials.search_id = one.search_id AND trials.trial = one.trial
    CROSS JOIN LATERAL jsonb_each(trials.parameters) AS given
    WHERE
        one.value NOT IN ('NaN', 'Infinity', '-Infinity')
        AND abs(hashint4(one.trial)::bigint) % greatest(1, searches.trials / 2000) = 0
),
sized AS (
    SELECT told.*, max(abs(value)) OVER (PARTITION BY search_id, objective) AS largest
    FROM told
),
placed AS (
    SELECT
        search_id, objective, parameter,
        CASE WHEN abs(value) > largest * 1e-100 THEN value / largest ELSE 0 END AS value,
        CASE kind
            WHEN 'number' THEN
                floor(
                    percent_rank() OVER (
                        PARTITION BY search_id, objective, parameter, kind
                        ORDER BY CASE kind WHEN 'number' THEN given::text::double precision END
                    ) * 0.999999 * least(
                        10, greatest(2, count(*) OVER (PARTITION BY search_id, objective, parameter, kind) / 5)
                    )
                )::text
            ELSE given::text
        END AS place
    FROM sized
),
grouped AS (
    SELECT
        search_id, objective, parameter, count(*) AS trials, avg(value) AS mean,
        var_pop(value) * count(*) AS within
    FROM placed
    GROUP BY search_id, objective, parameter, place
),
summed AS (
    SELECT
        search_id, objective, parameter, sum(trials) AS trials, count(*) AS groups, sum(within) AS within,
        sum(trials * mean ^ 2) - sum(trials * mean) ^ 2 / sum(trials) AS between_groups
    FROM grouped
    GROUP BY search_id, objective, parameter
)
SELECT
    search_id, objective, parameter, trials::integer AS trials, groups::integer AS groups,
    greatest(
        0.0,
        1.0 - (within / (trials - groups)::double precision)
            / nullif((within + between_groups) / (trials - 1)::double precision, 0)
    ) AS effect
FROM summed
WHERE trials > groups AND groups > 1
