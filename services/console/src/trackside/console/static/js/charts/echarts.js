// Loads ECharts for the pages that need it, and sets what all its charts have in common.
//
// Tooltips are HTML elements that are made here: ECharts' own are HTML with style attributes, which the content security
// policy forbids.

import { palette } from "./palette.js";
import { numberText, tipContent } from "./text.js";

const ALL_LABELS = 8;
const TINY = 1e-9;

let loading = null;

/** Returns the module of ECharts. Throws an Error if it can't be loaded. */
export function loadECharts() {
    loading ??= import("../../vendor/echarts.esm.min.js").catch(() => {
        loading = null;
        throw new Error("The script that draws this chart can't be loaded; reload the page.");
    });
    return loading;
}

/**
 * A chart of ECharts: `build(table, colors, context)` returns its options. `start(chart)` is called before the first of
 * them; `widthPx(table)` is the least width: in a narrower box the chart scrolls.
 */
export async function eChart(context, build, { start, widthPx, ...others } = {}) {
    const echarts = await loadECharts();
    const host = document.createElement("div");
    host.style.height = "100%";
    context.body.append(host);
    const chart = echarts.init(host, null, { renderer: "canvas" });
    start?.(chart, context);
    return {
        draw(table) {
            const colors = palette();
            if (widthPx) scrollBelow(context.body, host, widthPx(table), chart);
            chart.setOption({ ...shared(colors), ...build(table, colors, context) }, { notMerge: true });
        },
        resize: () => chart.resize(),
        close: () => chart.dispose(),
        ...others,
    };
}

function scrollBelow(body, host, px, chart) {
    host.style.minWidth = `${px}px`;
    const isNarrow = body.clientWidth < px;
    body.toggleAttribute("data-scrolls", isNarrow);
    if (isNarrow)
        body.tabIndex = 0; // so that the keyboard can scroll it
    else body.removeAttribute("tabindex");
    chart.resize();
}

function shared(colors) {
    return {
        animation: false,
        color: colors.series,
        backgroundColor: "transparent",
        textStyle: { color: colors.text, fontFamily: colors.font, fontSize: 12 },
        grid: { left: 8, right: 16, top: 12, bottom: 8, containLabel: true },
    };
}

/** Returns an axis in the page's colours; `more` are further options of ECharts. */
export function axis(colors, more = {}) {
    return {
        nameLocation: "middle",
        nameGap: 28,
        nameTextStyle: { color: colors.muted, fontSize: 11 },
        axisLine: { lineStyle: { color: colors.border } },
        axisTick: { lineStyle: { color: colors.border } },
        axisLabel: { color: colors.muted, fontSize: 11, hideOverlap: true },
        splitLine: { lineStyle: { color: colors.grid } },
        ...more,
    };
}

/** Returns a vertical axis in the page's colours, with its name over it: to its left, long numbers would cover it. */
export function sideAxis(options) {
    const style = { ...options.nameTextStyle, align: "left", padding: [0, 0, 0, -8] };
    return { ...options, nameLocation: "end", nameGap: 10, nameTextStyle: style };
}

/** Returns a tooltip: `describe(params)` returns a title and lines of [colour, name, value]. */
export function tooltip(describe, more = {}) {
    return {
        className: "chart-tip",
        confine: true,
        backgroundColor: "transparent",
        borderWidth: 0,
        padding: 0,
        textStyle: { fontSize: 12 },
        extraCssText:
            "background: var(--raised); padding: 7px 10px; border: 1px solid var(--border); color: var(--text); line-height: 1.45",
        formatter: (params) => {
            const [title, lines] = describe(params);
            return tipContent(title, lines);
        },
        ...more,
    };
}

/** Returns a legend of a colour scale for values from `min` to `max`; `more` are further options of ECharts. */
export function colorScale(colors, min, max, more = {}) {
    return {
        type: "continuous",
        min,
        max: max > min ? max : min + 1,
        calculable: true,
        orient: "vertical",
        right: 0,
        top: "middle",
        itemHeight: 110,
        itemWidth: 10,
        textStyle: { color: colors.muted, fontSize: 11 },
        inRange: { color: colors.scale },
        formatter: (value) => numberText(Number(value.toPrecision(3))),
        ...more,
    };
}

/** Returns the smallest and largest finite number, or [0, 1] if there is none. */
export function extent(values) {
    let min = Infinity;
    let max = -Infinity;
    for (const value of values) {
        if (!Number.isFinite(value)) continue;
        if (value < min) min = value;
        if (value > max) max = value;
    }
    return min <= max ? [min, max] : [0, 1];
}

/** Returns {min, max} at round numbers around a range, or at powers of ten: the axis stays when fewer values are shown. */
export function roundExtent(min, max, isLog) {
    if (isLog)
        return {
            min: 10 ** Math.floor(Math.log10(min) + TINY),
            max: 10 ** Math.ceil(Math.log10(max) - TINY),
        };
    const step = 10 ** Math.floor(Math.log10(max - min || Math.abs(max) || 1)) / 2;
    const round = (value) => Number(value.toPrecision(12)); // 3 * 0.1 is 0.30000000000000004
    return {
        min: round(Math.floor(min / step + TINY) * step),
        max: round(Math.ceil(max / step - TINY) * step),
    };
}

/** Returns the axis of a column: categories for labels, logarithmic if `isLog` and all values are positive. */
export function columnAxis(colors, column, { isLog = false, isTime = false, name } = {}) {
    const more = { name: name ?? column.name.replaceAll("_", " ") };
    if (column.labels) {
        const label = { color: colors.muted, fontSize: 11, width: 70, overflow: "truncate" };
        if (column.labels.length <= ALL_LABELS) label.interval = 0;
        return axis(colors, { ...more, type: "category", data: column.labels, axisLabel: label });
    }
    if (isTime) return axis(colors, { ...more, type: "time" });
    const [min] = extent(column.values);
    return axis(colors, { ...more, type: isLog && min > 0 ? "log" : "value", scale: true });
}
