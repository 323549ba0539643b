// A directed graph (SVG), such as the steps of a pipeline with their states.
//
// The answer is JSON or packed with meta.nodes: [{id, label, state, detail?, href?, critical?}] and
// meta.edges: [{source, target, label?, critical?}]. Options: direction ("right" by default, or "down").

import { nodesAsTable } from "./graph_table.js";
import { routedLayers } from "./layers.js";

const SVG = "http://www.w3.org/2000/svg";
const NODE = { width: 176, height: 46 };
const GAP = { along: 56, across: 18 };
const MARGIN = 12;
const CHARACTERS = 23;
const ROUTE_PX = 14;
const MARKER = {
    markerWidth: 8,
    markerHeight: 8,
    markerUnits: "userSpaceOnUse",
    orient: "auto-start-reverse",
};

let marker = 0;

/** Draws the graph. The nodes are links, which can be reached with the keyboard. */
export function create({ body, options, title }) {
    let shape = "";
    body.dataset.fit = "";
    return {
        isText: true,
        asTable: nodesAsTable,
        draw({ meta: { nodes, edges = [] } }) {
            const next = JSON.stringify([nodes, edges]);
            if (next === shape) return;
            shape = next;
            const focused = document.activeElement?.closest?.("a")?.getAttribute("href");
            body.replaceChildren(svgOf(nodes, edges, options.direction === "down", title));
            body.tabIndex = 0;
            body.setAttribute("role", "region");
            body.setAttribute("aria-label", `Graph: ${title}`);
            if (focused)
                [...body.querySelectorAll("a")]
                    .find((link) => link.getAttribute("href") === focused)
                    ?.focus();
        },
        close() {
            body.removeAttribute("tabindex");
        },
    };
}

function svgOf(nodes, edges, isDown, title) {
    const { places, routes, width, height } = placeNodes(nodes, edges, isDown);
    const svg = element("svg", {
        class: "graph-svg",
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "group",
        "aria-label": title,
    });
    const arrow = `graph-arrow-${(marker += 1)}`;
    const head = element("marker", { id: arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, ...MARKER });
    head.append(element("path", { d: "M0 0.5 8 4 0 7.5z" }));
    const defs = element("defs", {});
    defs.append(head);
    svg.append(defs);
    edges.forEach((edge, index) => {
        const stops = [edge.source, ...(routes[index] ?? []), edge.target].map((id) => places.get(id));
        if (stops.every(Boolean)) svg.append(...edgeParts(edge, stops, isDown, arrow));
    });
    for (const node of nodes) svg.append(nodeParts(node, places.get(node.id)));
    return svg;
}

function placeNodes(nodes, edges, isDown) {
    const { layers, routes } = routedLayers(nodes, edges);
    const isNode = new Set(nodes.map(({ id }) => id));
    const [long, wide] = isDown ? [NODE.height, NODE.width] : [NODE.width, NODE.height];
    const widthOf = (id) => (isNode.has(id) ? wide : ROUTE_PX);
    const widthsOf = (layer) => layer.reduce((sum, id) => sum + widthOf(id) + GAP.across, -GAP.across);
    const across = Math.max(...layers.map(widthsOf));
    const places = new Map();
    layers.forEach((layer, depth) => {
        const along = MARGIN + depth * (long + GAP.along);
        let side = MARGIN + (across - widthsOf(layer)) / 2;
        for (const id of layer) {
            const size = isDown ? { width: widthOf(id), height: long } : { width: long, height: widthOf(id) };
            places.set(id, { ...size, ...(isDown ? { x: side, y: along } : { x: along, y: side }) });
            side += widthOf(id) + GAP.across;
        }
    });
    const total = layers.length * (long + GAP.along) - GAP.along;
    const [width, height] = isDown ? [across, total] : [total, across];
    return { places, routes, width: width + 2 * MARGIN, height: height + 2 * MARGIN };
}

/** Returns the curve of an edge through the places of its stops: bends between layers, straight within them. */
function edgeParts({ label, critical }, stops, isDown, arrow) {
    const side = ({ x, y, width, height }, isEnd) =>
        isDown ? [x + width / 2, isEnd ? y + height : y] : [isEnd ? x + width : x, y + height / 2];
    let path = `M${side(stops[0], true)}`;
    for (let at = 1; at < stops.length; at++) {
        const from = side(stops[at - 1], true);
        const isLast = at === stops.length - 1;
        const to = side(stops[at], false).map((value, index) =>
            isLast && index === Number(isDown) ? value - 2 : value,
        );
        const bend = isDown ? (to[1] - from[1]) / 2 : (to[0] - from[0]) / 2;
        path += isDown
            ? ` C${from[0]} ${from[1] + bend} ${to[0]} ${to[1] - bend} ${to}`
            : ` C${from[0] + bend} ${from[1]} ${to[0] - bend} ${to[1]} ${to}`;
        if (!isLast) path += ` L${side(stops[at], true)}`;
    }
    const curve = element("path", { class: "graph-edge", d: path, "marker-end": `url(#${arrow})` });
    if (critical) curve.dataset.critical = "";
    if (!label) return [curve];
    const [start, end] = [side(stops[0], true), side(stops[1], false)];
    const text = element("text", {
        class: "graph-edge-label",
        x: (start[0] + end[0]) / 2,
        y: (start[1] + end[1]) / 2 - 4,
        "text-anchor": "middle",
    });
    text.textContent = label;
    return [curve, text];
}

function nodeParts({ id, label = id, state = "", detail, href, critical }, { x, y }) {
    const group = element("g", { class: "graph-node", transform: `translate(${x} ${y})` });
    group.dataset.status = state;
    if (critical) group.dataset.critical = "";
    const holder =
        href?.startsWith("/") && !href.startsWith("//") ? element("a", { href }) : element("g", {});
    holder.append(element("rect", { width: NODE.width, height: NODE.height, rx: 7 }));
    holder.append(
        element("rect", {
            class: "graph-stripe",
            x: 7,
            y: 9,
            width: 3.5,
            height: NODE.height - 18,
            rx: 1.75,
        }),
    );
    const name = element("text", { x: 18, y: 19, "font-weight": 500 });
    name.textContent = shortened(label);
    const below = element("text", { class: "graph-detail", x: 18, y: 35 });
    below.textContent = shortened(
        [state.toLowerCase().replaceAll("_", " "), detail].filter(Boolean).join(" · "),
    );
    const whole = element("title", {});
    whole.textContent = [label, state, detail].filter(Boolean).join("\n");
    holder.append(name, below, whole);
    group.append(holder);
    return group;
}

function shortened(text) {
    return text.length > CHARACTERS ? `${text.slice(0, CHARACTERS - 1)}…` : text;
}

function element(tag, attributes) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
}
