// The controls over curves: axis, smoothing, logarithmic scale. Their values are in the address of the page.

import { make } from "./text.js";

const AXES = { step: "Step", relative: "Relative time", wall: "Wall time" };
const LARGEST_WEIGHT = 0.99;

/** Adds the controls to a chart; `changed` is called after each change. */
export function lineTools(chart, changed) {
    const { tools, state, options } = chart;
    const controls = {
        axis: state.get("x") in AXES ? state.get("x") : "step",
        weight: Math.min(Number(state.get("smooth") ?? options.smoothing ?? 0) || 0, LARGEST_WEIGHT),
        isLog: (state.get("log") ?? String(Number(options.log ?? false))) === "1",
        show(hasTime) {
            axisLabel.hidden = !hasTime;
            if (!hasTime) controls.axis = "step";
        },
    };
    const axisLabel = axisControl(controls, state, options, changed);
    const shown = options.tools === false ? [] : (options.tools ?? ["axis", "smoothing", "log"]);
    if (shown.includes("axis")) tools.append(axisLabel);
    if (shown.includes("smoothing")) tools.append(smoothingControl(controls, state, changed));
    else controls.weight = 0;
    if (shown.includes("log")) tools.append(logControl(controls, state, options, changed));
    return controls;
}

function axisControl(controls, state, options, changed) {
    const select = make("select", "");
    for (const [value, text] of Object.entries(AXES)) {
        select.append(
            new Option(
                value === "step" ? (options.xLabel ?? text) : text,
                value,
                false,
                value === controls.axis,
            ),
        );
    }
    select.addEventListener("change", () => {
        controls.axis = select.value;
        state.set("x", select.value === "step" ? null : select.value);
        state.set("zoom", null); // a range of another axis has no meaning here
        changed();
    });
    return make("label", "", "X", select);
}

function smoothingControl(controls, state, changed) {
    const range = Object.assign(make("input", ""), {
        type: "range",
        min: "0",
        max: String(LARGEST_WEIGHT),
        step: "0.01",
    });
    range.value = String(controls.weight);
    const shown = make("output", "", controls.weight.toFixed(2));
    range.addEventListener("input", () => {
        controls.weight = Number(range.value);
        shown.textContent = controls.weight.toFixed(2);
        state.set("smooth", controls.weight ? range.value : null);
        changed();
    });
    return make("label", "", "Smoothing", range, shown);
}

function logControl(controls, state, options, changed) {
    const box = Object.assign(make("input", ""), { type: "checkbox", checked: controls.isLog });
    box.addEventListener("change", () => {
        controls.isLog = box.checked;
        state.set("log", box.checked === Boolean(options.log) ? null : String(Number(box.checked)));
        changed();
    });
    return make("label", "", box, "Log scale");
}
