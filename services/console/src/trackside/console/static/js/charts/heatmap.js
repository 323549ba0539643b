// A heat map (ECharts): columns x, y and value, such as the bins of a histogram over the steps of a training.
//
// Options: x, y, value (columns). With columns x_high and y_high a cell has its own size; otherwise x and y are categories.

import { axis, colorScale, eChart, extent, sideAxis, tooltip } from "./echarts.js";
import { cellText, numberText } from "./text.js";

/** Draws the heat map. */
export async function create(context) {
    return eChart(context, (table, colors) => build(table, colors, context.options));
}

function build(table, colors, options) {
    const names = [options.x ?? "x", options.y ?? "y", options.value ?? "value"];
    const [x, y, value] = names.map((name) => table.column(name));
    const isSized = table.has(`${names[0]}_high`) && table.has(`${names[1]}_high`);
    const sides = [x, y].map((column) => (isSized ? null : categories(column)));
    const data = Array.from({ length: table.length }, (_, row) =>
        isSized
            ? [
                  x.values[row],
                  y.values[row],
                  value.values[row],
                  table.column(`${names[0]}_high`).values[row],
                  table.column(`${names[1]}_high`).values[row],
              ]
            : [sides[0].index(row), sides[1].index(row), value.values[row]],
    );
    const side = (at, name) =>
        isSized
            ? axis(colors, {
                  type: "value",
                  scale: true,
                  name,
                  splitLine: { show: false },
                  axisLabel: {
                      color: colors.muted,
                      fontSize: 11,
                      hideOverlap: true,
                      formatter: (number) => numberText(number),
                  },
              })
            : axis(colors, { type: "category", data: sides[at].texts, name, splitLine: { show: false } });
    return {
        grid: { left: 8, right: 84, top: 30, bottom: 26, containLabel: true },
        xAxis: side(0, names[0]),
        yAxis: sideAxis(side(1, names[1])),
        visualMap: colorScale(colors, ...extent(value.values), {
            dimension: 2,
            inRange: { color: [colors.surface, colors.series[0]] },
        }),
        tooltip: tooltip(
            ({ dataIndex }) => [
                cellText(table.cell(names[0], dataIndex)),
                [
                    [null, names[1], cellText(table.cell(names[1], dataIndex))],
                    [null, names[2], cellText(table.cell(names[2], dataIndex))],
                ],
            ],
            { trigger: "item" },
        ),
        series: [
            isSized
                ? {
                      type: "custom",
                      data,
                      clip: true,
                      encode: { x: [0, 3], y: [1, 4] },
                      renderItem: drawCell,
                      progressive: 5000,
                  }
                : { type: "heatmap", data, progressive: 5000 },
        ],
    };
}

/** Returns the categories of a column, and the category of a row. */
function categories(column) {
    if (column.labels) return { texts: column.labels, index: (row) => column.values[row] };
    const distinct = [...new Set(column.values)].sort((one, other) => one - other);
    const places = new Map(distinct.map((value, index) => [value, index]));
    return { texts: distinct.map(numberText), index: (row) => places.get(column.values[row]) };
}

function drawCell(_, api) {
    const [left, bottom] = api.coord([api.value(0), api.value(1)]);
    const [right, top] = api.coord([api.value(3), api.value(4)]);
    return {
        type: "rect",
        shape: {
            x: left,
            y: top,
            width: Math.max(1, right - left + 0.5),
            height: Math.max(1, bottom - top + 0.5),
        },
        style: { fill: api.visual("color") },
    };
}
