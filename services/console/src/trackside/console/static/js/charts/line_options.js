// The settings of uPlot for curves: axes, grid, series, and the zoom in the address.

import { durationText } from "../times.js";
import { numberText } from "./text.js";

const LOG = 3; // uPlot's distribution of a logarithmic scale
const DURATIONS_S = [
    1e-3,
    1e-2,
    0.1,
    1,
    2,
    5,
    10,
    20,
    30,
    60,
    120,
    300,
    600,
    1200,
    1800,
    3600,
    7200,
    14400,
    28800,
    43200,
    86400,
    2 * 86400,
    7 * 86400,
];
const POINT_PX = 3;
const MANY_POINTS = 5000;
const WIDE_AXIS_PX = 56;
const SMALLEST_DRAG_PX = 5;

/** Returns the zoomed range of x in the address, or null. */
export function readRange(state) {
    const [min, max] = (state.get("zoom") ?? "").split("~").map(Number);
    return max > min ? { min, max } : null;
}

/** Keeps the zoomed range of x in the address; null for the whole range. */
export function writeRange(state, range) {
    state.set("zoom", range && `${Number(range.min.toPrecision(10))}~${Number(range.max.toPrecision(10))}`);
}

function options({ chart, width, height, series, bands, hooks }) {
    const { colors, controls, options: own } = chart;
    const axis = {
        stroke: colors.muted,
        font: `11px ${colors.font}`,
        labelFont: `11px ${colors.font}`,
        grid: { stroke: colors.grid, width: 1 },
        ticks: { stroke: colors.grid, width: 1, size: 4 },
    };
    const isWall = controls.axis === "wall" || (own.xIsTime && controls.axis === "step");
    const xValues =
        controls.axis === "relative"
            ? {
                  values: (_, splits) => splits.map((value) => durationText(value)),
                  incrs: DURATIONS_S,
                  space: 84,
              }
            : {};
    return {
        width,
        height,
        ms: own.xIsTime && controls.axis === "step" ? 1 : 1e-3,
        legend: { show: false },
        focus: { alpha: 1 },
        cursor: {
            drag: { x: true, y: false, dist: SMALLEST_DRAG_PX, setScale: false }, // the chart itself zooms
            bind: { dblclick: () => () => chart.resetZoom() },
            points: { size: 6 },
            y: false,
        },
        scales: {
            x: { time: isWall },
            y: controls.isLog ? { distr: LOG, log: 10 } : { range: own.range },
        },
        axes: [
            { ...axis, ...xValues, label: own.xLabel, labelSize: own.xLabel ? 18 : 0, size: 30 },
            {
                ...axis,
                label: own.yLabel,
                labelSize: own.yLabel ? 18 : 0,
                size: WIDE_AXIS_PX,
                values: (_, splits) => splits.map((value) => (value === null ? "" : numberText(value))),
            },
        ],
        series: [{}, ...series],
        bands,
        hooks,
    };
}

function series({ curve, color, role, show }, own, uPlot) {
    const isStepped = own.stepped === true || own.stepped?.includes?.(curve.name);
    const width = { main: 1.75, raw: 1, high: 0, low: 0 }[role];
    const onlyPoints = isPoints({ curve }, own);
    return {
        label: curve.name,
        show,
        stroke: role === "raw" ? `${color}55` : color,
        width: onlyPoints ? 0 : width,
        spanGaps: true, // curves have x values of their own; between them the others have gaps
        paths: onlyPoints ? () => null : isStepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
        points: onlyPoints
            ? { show: false }
            : { show: curve.x.length === 1 ? true : undefined, size: 5, fill: color },
    };
}

/**
 * Draws the points of a series without a line, each pixel once: 100,000 of them take a few ms, as circles in a path they
 * take a second.
 */
function drawPoints(plot, index, color) {
    const { ctx, bbox } = plot;
    const size = Math.round(POINT_PX * devicePixelRatio);
    const [xs, ys] = [plot.data[0], plot.data[index]];
    const taken = new Uint8Array(Math.ceil(bbox.width + 1) * Math.ceil(bbox.height + 1));
    ctx.save();
    ctx.fillStyle = color + (xs.length > MANY_POINTS ? "66" : "b0");
    for (let at = 0; at < xs.length; at++) {
        if (ys[at] === null || ys[at] === undefined) continue;
        const x = Math.round(plot.valToPos(xs[at], "x", true) - bbox.left);
        const y = Math.round(plot.valToPos(ys[at], "y", true) - bbox.top);
        if (x < 0 || y < 0 || x > bbox.width || y > bbox.height) continue;
        const pixel = y * Math.ceil(bbox.width + 1) + x;
        if (taken[pixel]) continue;
        taken[pixel] = 1;
        ctx.fillRect(bbox.left + x - size / 2, bbox.top + y - size / 2, size, size);
    }
    ctx.restore();
}

/** Returns whether a curve is drawn as points only. */
function isPoints({ curve }, { points }) {
    return points === true || (Array.isArray(points) && points.includes(curve.name));
}

/** Settings for a plot and for one series of it, and how points are drawn. */
export const line = { options, series, drawPoints, isPoints };
