// The bars of a timeline by row, sorted by their start, with a fast search for those in a range.

const RUNNING = "running";

/**
 * Returns the bars of a table; `rows` are in the order of `names`, then of the labels that are not among them; `from` and
 * `to` are in ms around all bars.
 */
export function barsOf(table, options, names = []) {
    const column = (name) => table.column(options[name] ?? name);
    const { values: labelOfBar, labels } = column("row");
    const start = column("start").values;
    const given = column("end").values;
    const now = table.meta.now ?? Date.now();
    const end = Float64Array.from(given, (value) => (Number.isNaN(value) ? now : value));
    const state = column("state");
    const labelName = options.label ?? "label";
    const rows = [...new Set([...names, ...labels])].map((name) => ({ name, bars: [] }));
    const rowOf = new Map(rows.map((row) => [row.name, row]));
    for (let bar = 0; bar < table.length; bar++) rowOf.get(labels[labelOfBar[bar]])?.bars.push(bar);
    for (const row of rows) {
        row.bars.sort((one, other) => start[one] - start[other]);
        row.first = firstFinder(row.bars, end);
    }
    return {
        rows,
        start,
        end,
        ...statesOf(state, given),
        ...bounds(start, end),
        isOpen: (bar) => Number.isNaN(given[bar]),
        text: (bar) => (table.has(labelName) ? String(table.cell(labelName, bar) ?? "") : ""),
    };
}

/** Returns the states by their labels, and the state of each bar; a bar without state and end is running. */
function statesOf({ values, labels }, given) {
    const states = [...(labels ?? [])];
    const isOpen = (bar) => values[bar] < 0 && Number.isNaN(given[bar]);
    if (!Array.prototype.some.call(values, (_, bar) => isOpen(bar))) return { state: values, states };
    const known = states.indexOf(RUNNING);
    const running = known >= 0 ? known : states.push(RUNNING) - 1;
    return { state: Int32Array.from(values, (value, bar) => (isOpen(bar) ? running : value)), states };
}

function bounds(start, end) {
    let from = Infinity;
    let to = -Infinity;
    for (let bar = 0; bar < start.length; bar++) {
        from = Math.min(from, start[bar]);
        to = Math.max(to, end[bar]);
    }
    return from < to ? { from, to } : { from: from - 500, to: from + 500 };
}

/** Returns a function from a time to the first place in `bars` from which bars can reach it. */
function firstFinder(bars, end) {
    const latest = new Float64Array(bars.length); // the latest end of all bars up to here: never decreases
    bars.forEach((bar, at) => (latest[at] = Math.max(end[bar], at ? latest[at - 1] : -Infinity)));
    return (time) => {
        let low = 0;
        let high = bars.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (latest[middle] < time) low = middle + 1;
            else high = middle;
        }
        return low;
    };
}

/** Returns the bar of a row at a time, the latest if they overlap; -1 if there is none within `slack` ms. */
export function barAt({ start, end }, row, time, slack) {
    let found = -1;
    for (let at = row.first(time - slack); at < row.bars.length; at++) {
        const bar = row.bars[at];
        if (start[bar] > time + slack) break;
        if (end[bar] >= time - slack) found = bar;
    }
    return found;
}
