// One small scatter chart a parameter, of its values against the objective (ECharts).
//
// Options: value, parameters, log (see parameters.js), color (column, default the trial's number), direction, href.

import { columnAxis, eChart, extent, sideAxis, tooltip } from "./echarts.js";
import { openHref } from "./links.js";
import { logNames, parameterNames, shortName, trialTitle, valueName } from "./parameters.js";
import { allRows, sampleRows } from "./sampling.js";
import { cellText, numberText } from "./text.js";

const LIMIT = 5000;
const HEIGHT_PX = 210;
const WIDTH_PX = 300;
const GAP_PX = 44;

/** Draws the slices. */
export async function create(context) {
    let last = null;
    const base = await eChart(context, (table, colors) => build((last = table), colors, context), {
        start: (chart) => chart.on("click", ({ value }) => openHref(context.options.href, last, value?.[3])),
    });
    const draw = base.draw;
    return {
        ...base,
        draw(table) {
            context.body.style.height = `${layout(context, parameterNames(table, context.options).length).height}px`;
            base.resize();
            draw(table);
        },
        resize() {
            if (last) this.draw(last);
        },
        close() {
            base.close();
            context.body.style.height = "";
        },
    };
}

function layout(context, count) {
    const columns = Math.max(1, Math.min(count, Math.floor(context.body.clientWidth / WIDTH_PX)));
    return { columns, height: Math.max(1, Math.ceil(count / columns)) * HEIGHT_PX };
}

function build(table, colors, context) {
    const { options, body, note } = context;
    const value = table.column(valueName(table, options) ?? "value");
    const names = parameterNames(table, options);
    const logs = logNames(table, options);
    const rows = sampleRows(allRows(table.length), LIMIT, value.values, options.direction === "maximize");
    note(
        rows.length < table.length
            ? `${rows.length} of ${table.length} trials are drawn: the best, and a sample of the others.`
            : "",
    );
    const { columns } = layout(context, names.length);
    const width = body.clientWidth / columns;
    const colorName = [options.color, "number", "trial"].find((name) => name && table.has(name));
    const color = colorName ? table.column(colorName) : null;
    const option = { grid: [], xAxis: [], yAxis: [], series: [] };
    names.forEach((name, index) => {
        const left = (index % columns) * width + GAP_PX;
        const top = Math.floor(index / columns) * HEIGHT_PX + 28;
        option.grid.push({ left, top, width: width - GAP_PX - 14, height: HEIGHT_PX - 78 });
        const parameter = table.column(name);
        const xAxis = columnAxis(colors, parameter, { isLog: logs.has(name), name: shortName(name) });
        option.xAxis.push({
            ...xAxis,
            gridIndex: index,
            splitNumber: 4,
            axisLabel: parameter.labels
                ? xAxis.axisLabel
                : { ...xAxis.axisLabel, formatter: (number) => numberText(number) },
        });
        option.yAxis.push({
            ...sideAxis(
                columnAxis(colors, value, {
                    isLog: logs.has(value.name),
                    name: index % columns ? "" : shortName(value.name),
                }),
            ),
            gridIndex: index,
            splitNumber: 4,
        });
        option.series.push(points(table, rows, parameter, value, color, index));
    });
    return {
        ...option,
        visualMap: color && {
            show: false,
            type: "continuous",
            dimension: 2,
            min: extent(color.values)[0],
            max: extent(color.values)[1] || 1,
            inRange: { color: colors.scale },
        },
        tooltip: tooltip((params) => describe(table, params, options), { trigger: "item" }),
    };
}

function points(table, rows, parameter, value, color, index) {
    const data = [];
    for (const row of rows) {
        const x = parameter.values[row];
        const isThere = parameter.labels ? x >= 0 : Number.isFinite(x);
        if (isThere && Number.isFinite(value.values[row]))
            data.push([x, value.values[row], color ? color.values[row] : 0, row]);
    }
    return {
        type: "scatter",
        xAxisIndex: index,
        yAxisIndex: index,
        data,
        symbolSize: data.length > 2000 ? 3 : 6,
        itemStyle: { opacity: 0.65 },
        progressive: 4000,
    };
}

function describe(table, { value }, options) {
    const row = value[3];
    const names = [valueName(table, options), ...parameterNames(table, options)].slice(0, 12);
    return [
        trialTitle(table, row),
        names.map((name) => [null, shortName(name), cellText(table.cell(name, row), false)]),
    ];
}
