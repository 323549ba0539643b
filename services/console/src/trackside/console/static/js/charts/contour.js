// The objective over two parameters (ECharts): trials as points, and between them values interpolated by inverse distance.
//
// Options: x, y (parameters; without both, selects choose them), value, parameters, log (see parameters.js), direction.

import { axis, colorScale, eChart, extent, sideAxis, tooltip } from "./echarts.js";
import { columnName, logNames, parameterNames, shortName, trialTitle, valueName } from "./parameters.js";
import { allRows, sampleRows } from "./sampling.js";
import { make, numberText } from "./text.js";

const CELLS = 40;
const NEIGHBOURS_LIMIT = 600;
const POINTS_LIMIT = 5000;
const SOFTNESS = 0.002;

/** Draws the contour chart. */
export async function create(context) {
    let last = null;
    const chosen = { x: context.state.get("cx"), y: context.state.get("cy") };
    const base = await eChart(context, (table, colors) => build(table, colors, context, chosen));
    const draw = (table) => {
        last = table;
        showSelects(table, context, chosen, () => base.draw(last));
        base.draw(table);
    };
    return { ...base, draw };
}

function showSelects(table, { tools, state, options }, chosen, changed) {
    const all = parameterNames(table, options);
    for (const [axisName, index] of [
        ["x", 0],
        ["y", 1],
    ]) {
        const given = options[axisName] && columnName(table, options[axisName]);
        if (!all.includes(chosen[axisName])) chosen[axisName] = given ?? all[Math.min(index, all.length - 1)];
    }
    if (tools.childElementCount || all.length < 3 || (options.x && options.y)) return; // the page chooses them
    for (const axisName of ["x", "y"]) {
        const select = make("select", "");
        for (const name of all)
            select.append(new Option(shortName(name), name, false, name === chosen[axisName]));
        select.addEventListener("change", () => {
            chosen[axisName] = select.value;
            state.set(`c${axisName}`, select.value);
            changed();
        });
        tools.append(make("label", "", axisName.toUpperCase(), select));
    }
}

/** Returns how a column is placed on 0 to 1, and back. */
function scaleOf(column, isLog) {
    if (column.labels) {
        const last = Math.max(1, column.labels.length - 1);
        return {
            to: (value) => value / last,
            from: (part) => part * last,
            text: (value) => column.labels[Math.round(value)] ?? "",
        };
    }
    const [min, max] = extent(column.values);
    const isUsed = isLog && min > 0;
    const [low, high] = isUsed ? [Math.log10(min), Math.log10(max)] : [min, max];
    const range = high - low || 1;
    return {
        to: (value) => ((isUsed ? Math.log10(value) : value) - low) / range,
        from: (part) => (isUsed ? 10 ** (low + part * range) : low + part * range),
        text: (value) => numberText(Number(value.toPrecision(3))),
    };
}

function build(table, colors, { options, note }, chosen) {
    const x = table.column(chosen.x);
    const y = table.column(chosen.y);
    const value = table.column(valueName(table, options) ?? "value");
    const logs = logNames(table, options);
    const scales = [scaleOf(x, logs.has(x.name)), scaleOf(y, logs.has(y.name))];
    const isThere = (column, row) =>
        column.labels ? column.values[row] >= 0 : Number.isFinite(column.values[row]);
    const rows = allRows(table.length).filter(
        (row) => isThere(x, row) && isThere(y, row) && Number.isFinite(value.values[row]),
    );
    const drawn = sampleRows(rows, POINTS_LIMIT, value.values, options.direction === "maximize");
    note(
        drawn.length < rows.length
            ? `${drawn.length} of ${rows.length} trials are drawn as points: the best, and a sample of the others.`
            : "",
    );
    const place = (row) => [scales[0].to(x.values[row]), scales[1].to(y.values[row]), value.values[row], row];
    const cells = interpolate(sampleRows(drawn, NEIGHBOURS_LIMIT).map(place));
    const [low, high] = extent(cells.map(([, , estimated]) => estimated));
    const side = (scale, name) =>
        axis(colors, {
            type: "value",
            min: 0,
            max: 1,
            name,
            axisLabel: {
                color: colors.muted,
                fontSize: 11,
                hideOverlap: true,
                formatter: (part) => scale.text(scale.from(part)),
            },
            splitLine: { show: false },
        });
    const order = options.direction === "maximize" ? colors.scale : [...colors.scale].reverse();
    return {
        grid: { left: 8, right: 84, top: 30, bottom: 26, containLabel: true },
        xAxis: side(scales[0], shortName(x.name)),
        yAxis: sideAxis(side(scales[1], shortName(y.name))),
        visualMap: colorScale(colors, low, high, { dimension: 2, seriesIndex: 0, inRange: { color: order } }),
        tooltip: tooltip(
            ({ value: point, seriesIndex }) => [
                seriesIndex ? trialTitle(table, point[3]) : "interpolated",
                [
                    [null, shortName(x.name), scales[0].text(scales[0].from(point[0]))],
                    [null, shortName(y.name), scales[1].text(scales[1].from(point[1]))],
                    [null, shortName(value.name), numberText(point[2])],
                ],
            ],
            { trigger: "item" },
        ),
        series: [
            { type: "custom", data: cells, renderItem: drawCell, clip: true, progressive: 2000 },
            {
                type: "scatter",
                data: drawn.map(place),
                symbolSize: drawn.length > 500 ? 3 : 5,
                itemStyle: { color: colors.text, opacity: drawn.length > 500 ? 0.35 : 0.75 },
            },
        ],
    };
}

function interpolate(points) {
    const cells = [];
    for (let column = 0; column < CELLS; column++) {
        for (let line = 0; line < CELLS; line++) {
            const [x, y] = [(column + 0.5) / CELLS, (line + 0.5) / CELLS];
            let sum = 0;
            let weights = 0;
            for (const [px, py, value] of points) {
                const weight = 1 / ((px - x) ** 2 + (py - y) ** 2 + SOFTNESS) ** 2; // a point within the softness is no peak
                sum += weight * value;
                weights += weight;
            }
            cells.push([x, y, weights ? sum / weights : NaN]);
        }
    }
    return cells;
}

function drawCell(_, api) {
    const [x, y] = api.coord([api.value(0), api.value(1)]);
    const [width, height] = api.size([1 / CELLS, 1 / CELLS]);
    return {
        type: "rect",
        shape: { x: x - width / 2, y: y - height / 2, width: width + 0.6, height: height + 0.6 },
        style: { fill: api.visual("color") },
    };
}
