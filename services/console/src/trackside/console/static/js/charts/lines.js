// Curves over steps or time (uPlot): many series, log axis, smoothing, min/max bands, annotations.
//
// Options: x, y, series, time (see series.js); xLabel, yLabel; xIsTime (x is a time in ms); log, smoothing (first values
// of the controls); tools: which controls are shown (["axis", "smoothing", "log"], or false); points: true draws points only, or a list of the curves without a
// line; stepped: a list of curves drawn as steps. meta.annotations: [{x, text, kind, time?}], x as the x column, time in ms.

import { line, readRange, writeRange } from "./line_options.js";
import { lineTools } from "./line_tools.js";
import { palette, statusColors } from "./palette.js";
import { curves, smooth, xOn } from "./series.js";
import { make, makeTip, numberText, timeText, tipContent } from "./text.js";
import { durationText } from "../times.js";
import { loadUPlot } from "./uplot.js";

const NEAR_PX = 5;
const RESERVED_PX = 4;
const TIP_LINES = 12;

/** Draws curves into a chart; see charts.js for the context. */
export async function create(context) {
    const uPlot = await loadUPlot();
    return new Lines(context, uPlot);
}

class Lines {
    constructor(context, uPlot) {
        Object.assign(this, context);
        this.uPlot = uPlot;
        this.plot = null;
        this.host = make("div", "");
        this.legend = make("div", "chart-legend");
        this.body.append(this.host);
        this.body.after(this.legend);
        this.tip = makeTip(this.body);
        this.hidden = new Set(JSON.parse(this.state.get("off") ?? "[]"));
        this.times = new Set(["time", this.options.time, this.options.xIsTime ? this.options.x : null]);
        this.controls = lineTools(this, () => this.rebuild());
    }

    draw(table) {
        this.table = table;
        this.curves = curves(table, this.options);
        this.controls.show(this.curves.some(({ time }) => time));
        this.rebuild();
    }

    /** Makes the plot again from the curves and the controls; the zoom stays. */
    rebuild() {
        const { axis, weight } = this.controls;
        this.colors = palette();
        this.drawn = this.drawnSeries(axis, weight);
        const values = this.aligned(this.drawn);
        const zoom = readRange(this.state);
        const shape = JSON.stringify([
            axis,
            this.controls.isLog,
            this.drawn.map(({ curve, color, role, show }) => [curve.name, color, role, show]),
        ]);
        if (this.plot && shape === this.shape) {
            this.plot.setData(values, !zoom); // keeps the cursor where it is
        } else {
            this.plot?.destroy();
            this.plot = new this.uPlot(this.plotOptions(this.drawn), values, this.host);
        }
        this.shape = shape;
        if (zoom) this.plot.setScale("x", zoom);
        this.refine();
        this.showLegend();
    }

    /** Returns what is drawn: for each curve its band, its raw and its smoothed values. */
    drawnSeries(axis, weight) {
        return this.curves.flatMap((curve, index) => {
            const color = this.colors.series[index % this.colors.series.length];
            const part = { curve, color, x: xOn(axis, curve), show: !this.hidden.has(curve.name) };
            const parts = [];
            if (curve.low)
                parts.push({ ...part, role: "high", y: curve.high }, { ...part, role: "low", y: curve.low });
            if (weight > 0)
                parts.push(
                    { ...part, role: "raw", y: curve.y },
                    { ...part, role: "main", y: smooth(curve.y, weight) },
                );
            else parts.push({ ...part, role: "main", y: curve.y });
            return parts;
        });
    }

    /** Returns the values of all series at the x values of any of them, as uPlot expects: null where there is none. */
    aligned(drawn) {
        const clean = (values) =>
            values.map((value) =>
                Number.isFinite(value) && !(this.controls.isLog && value <= 0) ? value : null,
            );
        const tables = drawn.map(({ x, y }) => {
            const rows = x.map((_, row) => row).filter((row) => Number.isFinite(x[row]));
            rows.sort((one, other) => x[one] - x[other]);
            // Two values of one x: the later one, since uPlot's x values must differ.
            const kept = rows.filter((row, at) => at + 1 === rows.length || x[row] !== x[rows[at + 1]]);
            return [kept.map((row) => x[row]), clean(kept.map((row) => y[row]))];
        });
        return tables.length === 1 ? tables[0] : this.uPlot.join(tables);
    }

    plotOptions(drawn) {
        const bands = drawn.flatMap(({ role, color }, at) =>
            role === "high" ? [{ series: [at + 1, at + 2], fill: `${color}26` }] : [],
        );
        return line.options({
            chart: this,
            bands,
            width: Math.max(this.body.clientWidth - RESERVED_PX, 120),
            height: this.body.clientHeight,
            series: drawn.map((part) => line.series(part, this.options, this.uPlot)),
            hooks: {
                drawSeries: [(plot, at) => this.drawPoints(plot, at)],
                draw: [(plot) => this.drawAnnotations(plot)],
                setCursor: [(plot) => this.showTip(plot)],
                setSelect: [(plot) => this.zoomToSelection(plot)],
            },
        });
    }

    zoomToSelection(plot) {
        const { left, width } = plot.select;
        if (width <= 0) return;
        writeRange(this.state, { min: plot.posToVal(left, "x"), max: plot.posToVal(left + width, "x") });
        plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        plot.setScale("x", readRange(this.state));
        this.refine();
    }

    /** Shows everything again. */
    resetZoom() {
        writeRange(this.state, null);
        this.plot.setData(this.plot.data, true);
        this.refine();
    }

    /** Loads the zoomed range in more detail. On axes of time, whose steps are not known, everything stays loaded. */
    refine() {
        const zoom = this.controls.axis === "step" ? readRange(this.state) : null;
        this.narrow(zoom && { from: Math.floor(zoom.min), to: Math.ceil(zoom.max) });
    }

    xText(value) {
        const { axis } = this.controls;
        if (axis === "wall") return timeText(value * 1000);
        if (axis === "relative") return durationText(value);
        if (this.options.xIsTime) return timeText(value);
        return `${this.options.xLabel ?? "step"} ${numberText(value)}`;
    }

    annotations() {
        const { axis } = this.controls;
        const given = this.table.meta.annotations ?? [];
        if (axis === "step") return given;
        // On an axis of time only those that have one; relative times are those of the first curve.
        const first = axis === "relative" ? (this.curves[0]?.time?.find((ms) => !Number.isNaN(ms)) ?? 0) : 0;
        return given
            .filter(({ time }) => time !== undefined)
            .map((each) => ({ ...each, x: (each.time - first) / 1000 }));
    }

    drawAnnotations(plot) {
        const colorOf = statusColors();
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
        for (const { x, kind } of this.annotations()) {
            const left = plot.valToPos(x, "x", true);
            if (left < bbox.left || left > bbox.left + bbox.width) continue;
            ctx.strokeStyle = ctx.fillStyle = kind ? colorOf(kind) : this.colors.muted;
            ctx.beginPath();
            ctx.moveTo(left, bbox.top);
            ctx.lineTo(left, bbox.top + bbox.height);
            ctx.stroke();
            ctx.beginPath();
            ctx.arc(left, bbox.top + 3 * devicePixelRatio, 3 * devicePixelRatio, 0, 2 * Math.PI);
            ctx.fill();
        }
        ctx.restore();
    }

    drawPoints(plot, at) {
        const part = this.drawn[at - 1];
        if (part?.show && line.isPoints(part, this.options)) line.drawPoints(plot, at, part.color);
    }

    showTip(plot) {
        const { left, top, idx } = plot.cursor;
        if (left === undefined || left < 0 || idx === null || idx === undefined) return this.tip.hide();
        const near = this.annotations().filter(({ x }) => Math.abs(plot.valToPos(x, "x") - left) <= NEAR_PX);
        const lines = [];
        this.drawn.forEach(({ role, color, curve, show }, at) => {
            const value = plot.data[at + 1][idx];
            if (role === "main" && show && value !== null && value !== undefined)
                lines.push([color, curve.name, value]);
        });
        lines.sort(([, , one], [, , other]) => other - one);
        const texts = lines
            .slice(0, TIP_LINES)
            .map(([color, name, value]) => [color, name, numberText(value)]);
        if (lines.length > TIP_LINES) texts.push([null, `and ${lines.length - TIP_LINES} more`, ""]);
        for (const { text, kind } of near) texts.push([kind ? statusColors()(kind) : null, text, ""]);
        const over = plot.over;
        this.tip.show(
            tipContent(this.xText(plot.data[0][idx]), texts),
            over.offsetLeft + left,
            over.offsetTop + top,
        );
    }

    showLegend() {
        this.legend.hidden = this.curves.length < 2;
        if (this.legend.hidden) return;
        const focused = [...this.legend.children].indexOf(document.activeElement);
        this.legend.replaceChildren(...this.curves.map((curve, index) => this.legendButton(curve, index)));
        this.legend.children[focused]?.focus();
    }

    legendButton({ name }, index) {
        const swatch = make("span", "swatch");
        swatch.style.background = this.colors.series[index % this.colors.series.length];
        const button = make("button", "", swatch, name);
        button.type = "button";
        button.title = name;
        button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
        button.addEventListener("click", () => {
            if (!this.hidden.delete(name)) this.hidden.add(name);
            this.state.set("off", this.hidden.size ? JSON.stringify([...this.hidden]) : null);
            this.rebuild();
        });
        return button;
    }

    resize() {
        this.plot?.setSize({
            width: Math.max(this.body.clientWidth - RESERVED_PX, 120),
            height: this.body.clientHeight,
        });
    }

    close() {
        this.plot?.destroy();
        this.legend.remove();
    }
}
