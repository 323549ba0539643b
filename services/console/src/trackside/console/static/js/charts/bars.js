// Bars (ECharts): `importances` and `bars` (a column of labels and one or more of numbers), and `histogram` (columns low,
// high, count).
//
// Options: label, value (columns), horizontal (default true for importances), stacked, unit.

import { axis, eChart, tooltip } from "./echarts.js";
import { numberText } from "./text.js";

const BAR_PX = 26;

/** Draws the bars of the kind that the figure names. */
export async function create(context) {
    const kind = context.figure.dataset.chart;
    if (kind === "histogram") return eChart(context, buildHistogram);
    const isHorizontal = context.options.horizontal ?? kind === "importances";
    const base = await eChart(context, (table, colors) =>
        buildBars(table, colors, context.options, isHorizontal),
    );
    if (!isHorizontal) return base;
    return {
        ...base,
        draw(table) {
            context.body.style.height = `${Math.max(100, table.length * BAR_PX + 44)}px`;
            base.resize();
            base.draw(table);
        },
        close() {
            base.close();
            context.body.style.height = "";
        },
    };
}

function buildBars(table, colors, options, isHorizontal) {
    const label = options.label ?? table.columns.find(({ labels }) => labels)?.name ?? table.columns[0].name;
    const values = [
        options.value ??
            table.columns.filter(({ name, labels }) => name !== label && !labels).map(({ name }) => name),
    ].flat();
    const rows = Array.from({ length: table.length }, (_, row) => row);
    if (isHorizontal) rows.reverse(); // the first row is on top
    const category = axis(colors, {
        type: "category",
        data: rows.map((row) => String(table.cell(label, row) ?? "-")),
        splitLine: { show: false },
        axisLabel: { color: colors.text, fontSize: 12, width: isHorizontal ? 160 : 90, overflow: "truncate" },
    });
    const value = axis(colors, {
        type: "value",
        axisLabel: {
            color: colors.muted,
            fontSize: 11,
            hideOverlap: true,
            formatter: (number) => numberText(number),
        },
    });
    return {
        xAxis: isHorizontal ? value : category,
        yAxis: isHorizontal ? category : value,
        legend: values.length > 1 ? { top: 0, textStyle: { color: colors.muted } } : undefined,
        // ECharts takes long labels for a little narrower than they are drawn.
        grid: {
            left: isHorizontal ? 24 : 8,
            right: 52,
            top: values.length > 1 ? 30 : 8,
            bottom: 8,
            containLabel: true,
        },
        tooltip: tooltip(
            (params) => [
                params[0].name,
                params.map(({ color, seriesName, value: shown }) => [
                    color,
                    seriesName,
                    `${numberText(shown)}${unit(options)}`,
                ]),
            ],
            {
                trigger: "axis",
                axisPointer: { type: "shadow", shadowStyle: { color: colors.grid, opacity: 0.5 } },
            },
        ),
        series: values.map((name) => ({
            name: name.replaceAll("_", " "),
            type: "bar",
            stack: options.stacked ? "all" : undefined,
            barMaxWidth: 22,
            data: rows.map((row) => table.cell(name, row)),
            itemStyle: { borderRadius: isHorizontal ? [0, 3, 3, 0] : [3, 3, 0, 0] },
            label: {
                show: isHorizontal && values.length === 1,
                position: "right",
                color: colors.muted,
                formatter: ({ value: shown }) => `${numberText(shown)}${unit(options)}`,
            },
        })),
    };
}

function unit({ unit: text }) {
    return text ? ` ${text}` : "";
}

function buildHistogram(table, colors, { options }) {
    const [low, high, count] = ["low", "high", "count"].map((name) => table.column(name).values);
    const data = Array.from({ length: table.length }, (_, row) => [low[row], high[row], count[row]]);
    return {
        xAxis: axis(colors, {
            type: "value",
            scale: true,
            min: "dataMin",
            max: Math.max(...high),
            name: options.xLabel,
            axisLabel: {
                color: colors.muted,
                fontSize: 11,
                hideOverlap: true,
                formatter: (number) => numberText(number),
            },
        }),
        yAxis: axis(colors, { type: "value", min: 0 }),
        grid: { left: 8, right: 20, top: 12, bottom: options.xLabel ? 26 : 8, containLabel: true },
        tooltip: tooltip(
            ({ value }) => [
                `${numberText(value[0])} to ${numberText(value[1])}`,
                [[null, "count", numberText(value[2])]],
            ],
            { trigger: "item" },
        ),
        series: [
            {
                type: "custom",
                encode: { x: [0, 1], y: 2 },
                data,
                renderItem: (_, api) => drawBin(api, colors),
            },
        ],
    };
}

function drawBin(api, colors) {
    const [left, top] = api.coord([api.value(0), api.value(2)]);
    const [right, bottom] = api.coord([api.value(1), 0]);
    return {
        type: "rect",
        shape: { x: left + 0.5, y: top, width: Math.max(1, right - left - 1), height: bottom - top },
        style: { fill: colors.series[0] },
    };
}
