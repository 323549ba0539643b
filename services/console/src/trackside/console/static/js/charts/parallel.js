// Parallel coordinates (ECharts): one line a trial, one axis a parameter, coloured by a value.
//
// Options: value, parameters, log (see parameters.js), direction ("minimize" or "maximize").
// At most LIMIT lines are drawn; the line below says so. After brushing, more of the selected trials are drawn.

import { axis, colorScale, eChart, extent, roundExtent, tooltip } from "./echarts.js";
import { logNames, parameterNames, shortName, valueName } from "./parameters.js";
import { allRows, sampleRows } from "./sampling.js";
import { numberText } from "./text.js";

const LIMIT = 2000;
const AXIS_PX = 96;
const OVER_LINES = 20;
const ALL_LABELS = 24;
const SHARE_OF_BAD = 0.95;

/** Draws trials as lines over their parameters. */
export async function create(context) {
    const brushed = new Map();
    let chart = null;
    let last = null;
    const draw = () => chart.setOption({ series: [series(last, brushed, context)] });
    const base = await eChart(
        context,
        (table, colors) =>
            build((last = { table, colors, ...plan(table, context.options) }), brushed, context),
        {
            widthPx: (table) => plan(table, context.options).names.length * AXIS_PX,
            start(created) {
                chart = created;
                chart.on("axisareaselected", () => {
                    if (readBrush(chart, last, brushed)) draw();
                });
            },
        },
    );
    return {
        ...base,
        draw(table) {
            base.draw(table);
            // New axes have no brush: the reader's is set again.
            for (const [name, intervals] of [...brushed])
                chart.dispatchAction({ type: "axisAreaSelect", parallelAxisId: name, intervals });
        },
    };
}

function plan(table, options) {
    const value = valueName(table, options);
    const names = parameterNames(table, options);
    return { names: value ? [...names, value] : names, value };
}

function build({ table, colors, names, value }, brushed, context) {
    const { options } = context;
    const logs = logNames(table, options);
    const axes = names.map((name, dim) => parallelAxis(table.column(name), dim, colors, logs.has(name)));
    const last = { table, colors, names, value };
    return {
        parallel: {
            left: 44,
            right: value ? 96 : 44,
            top: 34,
            bottom: 18,
            parallelAxisDefault: { nameGap: 12 },
        },
        parallelAxis: axes,
        visualMap: value
            ? colorScale(colors, ...robustRange(table, value, options), {
                  dimension: names.length - 1,
                  ...scaleOrder(colors, options),
              })
            : undefined,
        tooltip: tooltip(() => ["", []], { show: false }),
        series: [series(last, brushed, context)],
    };
}

/** The best trials have the strongest colour, for both directions. */
function scaleOrder(colors, options) {
    return {
        inRange: { color: options.direction === "maximize" ? colors.scale : [...colors.scale].reverse() },
    };
}

/** The range of colours without the worst values, so that a few diverged trials do not take all of it. */
function robustRange(table, value, options) {
    const finite = Float64Array.from(table.column(value).values).filter(Number.isFinite).sort();
    if (!finite.length) return [0, 1];
    const cut = Math.floor((finite.length - 1) * SHARE_OF_BAD);
    return options.direction === "maximize"
        ? [finite[finite.length - 1 - cut], finite[finite.length - 1]]
        : [finite[0], finite[cut]];
}

function parallelAxis(column, dim, colors, isLog) {
    const [min, max] = extent(column.values);
    const kind = column.labels
        ? { type: "category", data: column.labels }
        : { type: isLog && min > 0 ? "log" : "value", ...roundExtent(min, max, isLog && min > 0) };
    return {
        ...axis(colors, { nameLocation: "end", nameGap: 12, splitLine: { show: false } }),
        dim,
        id: column.name,
        ...kind,
        name: shortName(column.name),
        nameTruncate: { maxWidth: 110 },
        nameTextStyle: { color: colors.text, fontSize: 11.5, fontWeight: 500 },
        z: OVER_LINES,
        axisLabel: axisLabel(column, colors),
        areaSelectStyle: { width: 18, color: colors.accent, borderColor: colors.accent, opacity: 0.22 },
    };
}

/** Labels lie over the lines, so they have a border in the colour of the background. */
function axisLabel(column, colors) {
    const halo = { textBorderColor: colors.surface, textBorderWidth: 3 };
    const label = { color: colors.text, fontSize: 11, width: 90, overflow: "truncate", ...halo };
    if (!column.labels) return { ...label, formatter: (value) => numberText(value) };
    return column.labels.length <= ALL_LABELS ? { ...label, interval: 0 } : label;
}

function series({ table, colors, names, value }, brushed, { options, note }) {
    const selected = matching(table, brushed);
    const values = value && table.column(value).values;
    const rows = sampleRows(selected, LIMIT, values, options.direction === "maximize");
    note(noteText(table.length, selected.length, rows.length, Boolean(value)));
    const width = rows.length > 400 ? 1 : 1.4;
    const opacity = rows.length > 1000 ? 0.22 : rows.length > 200 ? 0.4 : 0.7;
    const columns = names.map((name) => table.column(name));
    const data = rows.map((row) => columns.map(({ values: cells, labels }) => cell(cells[row], labels)));
    return {
        id: "trials",
        type: "parallel",
        lineStyle: { width, opacity, color: value ? undefined : colors.accent },
        inactiveOpacity: 0.03,
        activeOpacity: Math.max(opacity, 0.6),
        progressive: 500,
        data,
    };
}

function cell(value, labels) {
    if (labels) return value >= 0 ? value : "-";
    return Number.isNaN(value) ? "-" : value;
}

/** Returns the rows whose values are within the brushed intervals of all axes. */
function matching(table, brushed) {
    let rows = allRows(table.length);
    for (const [name, intervals] of brushed) {
        if (!table.has(name)) continue;
        const { values } = table.column(name);
        rows = rows.filter((row) =>
            intervals.some(([low, high]) => values[row] >= low && values[row] <= high),
        );
    }
    return rows;
}

/** Reads the brushed intervals of all axes into `brushed`; returns whether the sample must change. */
function readBrush(chart, { table, names }, brushed) {
    const before = JSON.stringify([...brushed]);
    brushed.clear();
    chart.getModel().eachComponent("parallelAxis", (model) => {
        const intervals = model.activeIntervals.filter((interval) => interval.length === 2);
        if (intervals.length)
            brushed.set(
                names[model.option.dim],
                intervals.map((interval) => [...interval].sort((one, other) => one - other)),
            );
    });
    return table.length > LIMIT && JSON.stringify([...brushed]) !== before;
}

function noteText(total, selected, drawn, isBest) {
    const parts = selected < total ? [`${selected} of ${total} trials are selected.`] : [];
    if (drawn < selected) {
        parts.push(
            isBest
                ? `${drawn} lines are drawn: the best ${Math.floor(LIMIT / 2)}, and a sample of the others.`
                : `A sample of ${drawn} lines is drawn.`,
        );
    }
    if (!parts.length && total > 1)
        parts.push(`${total} trials. Drag along an axis to select a range; click it to clear.`);
    return parts.join(" ");
}
