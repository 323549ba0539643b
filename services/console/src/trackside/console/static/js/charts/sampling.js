// Chooses rows when there are more than a chart can show.

/**
 * Returns at most `limit` of the rows, in their order: half of them the best by `values` (smallest, or largest if
 * `isLargest`), the others spread evenly over the rest. Without values all are spread evenly.
 */
export function sampleRows(rows, limit, values = null, isLargest = false) {
    if (rows.length <= limit) return rows;
    const best = values ? bestRows(rows, Math.floor(limit / 2), values, isLargest) : [];
    const taken = new Set(best);
    const rest = rows.filter((row) => !taken.has(row));
    const count = limit - best.length;
    for (let at = 0; at < count; at++) taken.add(rest[Math.floor((at * rest.length) / count)]);
    return rows.filter((row) => taken.has(row));
}

/** Returns the best `count` of the rows by their values; rows without a finite value are never the best. */
export function bestRows(rows, count, values, isLargest) {
    const sign = isLargest ? -1 : 1;
    const finite = rows.filter((row) => Number.isFinite(values[row]));
    return finite.sort((one, other) => sign * (values[one] - values[other])).slice(0, count);
}

/** Returns 0 to `length` - 1. */
export function allRows(length) {
    return Array.from({ length }, (_, row) => row);
}
