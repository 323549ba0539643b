// Which columns of trials are parameters, and which is the value.
//
// Parameters: options.parameters, else meta.parameters, else the columns that begin with "parameters.", else all columns
// that are not known to be something else. The value: options.value, else "value", else the first of meta.objectives,
// else the first column that begins with "objectives.".

const OTHERS = new Set([
    "id",
    "number",
    "trial",
    "task_id",
    "status",
    "started",
    "ended",
    "started_ms",
    "ended_ms",
    "last_value",
    "time",
    "took",
    "duration",
    "duration_s",
    "best",
    "front",
]);
const PREFIX = /^parameters\./;
const VALUE_PREFIX = /^(?:objectives|values)\./;

/** Returns the names of the columns that are parameters. */
export function parameterNames(table, options) {
    const listed = options.parameters ?? options.axes ?? table.meta.parameters;
    if (listed) return listed.map((name) => columnName(table, name)).filter(Boolean);
    const objectives = new Set(table.meta.objectives ?? []);
    const value = valueName(table, options);
    const names = table.columns.map(({ name }) => name);
    const prefixed = names.filter((name) => PREFIX.test(name));
    return prefixed.length
        ? prefixed
        : names.filter(
              (name) =>
                  name !== value && !OTHERS.has(name) && !objectives.has(name) && !VALUE_PREFIX.test(name),
          );
}

/** Returns the name of the column of a parameter or an objective, with or without the prefix of its kind; or null. */
export function columnName(table, name) {
    return (
        [name, `parameters.${name}`, `objectives.${name}`, `values.${name}`].find((each) =>
            table.has(each),
        ) ?? null
    );
}

/** Returns the name of the column of the value that is optimized. */
export function valueName(table, options) {
    const names = [options.value, "value", ...(table.meta.objectives ?? [])];
    for (const name of names) {
        const found = name && columnName(table, name);
        if (found) return found;
    }
    return table.columns.find(({ name }) => VALUE_PREFIX.test(name))?.name ?? null;
}

/** Returns the names of logarithmic columns, with the prefix that they have in the table. */
export function logNames(table, options) {
    return new Set((options.log ?? table.meta.log ?? []).map((name) => columnName(table, name)));
}

/** Returns the name of a column without the prefix of its kind. */
export function shortName(name) {
    return name.replace(PREFIX, "").replace(VALUE_PREFIX, "");
}

/** Returns "trial 12" for a row, by its number if the table has one. */
export function trialTitle(table, row) {
    const name = ["number", "trial"].find((each) => table.has(each));
    return name ? `trial ${table.cell(name, row)}` : `row ${row + 1}`;
}
