// Points of two columns (ECharts), such as two objectives with their Pareto front.
//
// Options: x, y (columns), color (column), xIsTime, log: ["x", "y"], label (column shown in the tooltip), href
// ("/trials/{id}"), front (column that is 1 for points of the front, which a line joins). Kind `front`: objectives (two or
// more columns, of which two are drawn) and directions ("minimize" or "maximize" each) instead of x, y and front.

import { colorScale, columnAxis, eChart, extent, sideAxis, tooltip } from "./echarts.js";
import { openHref } from "./links.js";
import { columnName, shortName, trialTitle } from "./parameters.js";
import { allRows } from "./sampling.js";
import { cellText } from "./text.js";

const LARGE = 5000;

/** Draws a scatter chart. */
export async function create(context) {
    let table = null;
    return eChart(context, (next, colors) => build((table = next), colors, context.options), {
        start: (chart) => chart.on("click", ({ value }) => openHref(context.options.href, table, value?.[3])),
        times: new Set(context.options.xIsTime ? [context.options.x] : []),
    });
}

function build(table, colors, options) {
    const [x, y] = axesOf(table, options);
    const color = options.color && table.has(options.color) ? table.column(options.color) : null;
    const logs = new Set(options.log ?? []);
    const points = [];
    for (let row = 0; row < table.length; row++) {
        if (Number.isFinite(x.values[row]) && Number.isFinite(y.values[row])) {
            points.push([x.values[row], y.values[row], color ? color.values[row] : 0, row]);
        }
    }
    const size = points.length > LARGE ? 3 : points.length > 500 ? 5 : 7;
    return {
        grid: { left: 8, right: color ? 84 : 16, top: 30, bottom: 26, containLabel: true },
        xAxis: columnAxis(colors, x, { isLog: logs.has("x"), isTime: options.xIsTime }),
        yAxis: sideAxis(columnAxis(colors, y, { isLog: logs.has("y") })),
        visualMap: color && colorsOf(color, colors),
        tooltip: tooltip(({ value }) => describe(table, value[3], options), { trigger: "item" }),
        dataZoom: [{ type: "inside", xAxisIndex: 0, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false }],
        series: [
            ...frontLine(table, x, y, colors, options),
            {
                type: "scatter",
                data: points,
                symbolSize: size,
                itemStyle: { opacity: points.length > LARGE ? 0.4 : 0.75 },
                large: points.length > LARGE && !color,
                progressive: 5000,
            },
        ],
    };
}

function axesOf(table, options) {
    const numbers = table.columns.filter(({ labels }) => !labels).map(({ name }) => name);
    const [first, second] = options.objectives ?? table.meta.objectives ?? [];
    const pick = (name, index) => table.column((name && columnName(table, name)) ?? name ?? numbers[index]);
    return [pick(options.x ?? first, 0), pick(options.y ?? second, 1)];
}

function colorsOf(color, colors) {
    if (!color.labels) return colorScale(colors, ...extent(color.values), { dimension: 2 });
    const pieces = color.labels.map((label, value) => ({
        value,
        label,
        color: colors.series[value % colors.series.length],
    }));
    return {
        type: "piecewise",
        dimension: 2,
        pieces,
        right: 0,
        top: "middle",
        textStyle: { color: colors.muted, fontSize: 11 },
        itemWidth: 10,
        itemHeight: 10,
    };
}

function frontLine(table, x, y, colors, options) {
    const rows = frontRows(table, x, y, options);
    if (!rows.length) return [];
    const points = rows.map((row) => [x.values[row], y.values[row], 0, row]);
    points.sort((one, other) => one[0] - other[0]);
    return [
        {
            type: "line",
            step: "end",
            data: points,
            symbol: "circle",
            symbolSize: 9,
            z: 3,
            lineStyle: { color: colors.series[1], width: 1.5 },
            itemStyle: { color: colors.series[1] },
        },
    ];
}

/** Returns the rows of the Pareto front: those of the column `front`, or those that no other row dominates. */
function frontRows(table, x, y, { front, objectives, directions = table.meta.directions ?? [] }) {
    const all = allRows(table.length);
    if (front && table.has(front)) return all.filter((row) => table.column(front).values[row] === 1);
    if (!objectives && !table.meta.objectives) return [];
    const [xSign, ySign] = [0, 1].map((index) => (directions[index] === "maximize" ? -1 : 1));
    const cost = (row) => [xSign * x.values[row], ySign * y.values[row]];
    const finite = all.filter((row) => cost(row).every(Number.isFinite));
    finite.sort((one, other) => cost(one)[0] - cost(other)[0] || cost(one)[1] - cost(other)[1]);
    let best = Infinity;
    return finite.filter((row) => {
        const isBetter = cost(row)[1] < best;
        if (isBetter) best = cost(row)[1];
        return isBetter;
    });
}

function describe(table, row, options) {
    const title =
        options.label && table.has(options.label)
            ? cellText(table.cell(options.label, row))
            : trialTitle(table, row);
    const lines = table.columns
        .slice(0, 12)
        .map(({ name }) => [
            null,
            shortName(name),
            cellText(table.cell(name, row), options.xIsTime && name === options.x),
        ]);
    return [title, lines];
}
