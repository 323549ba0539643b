// The nodes and edges of graphs as tables, for the table view of a chart.

import { fromJson } from "../packed.js";

/** Returns a column of texts. */
function texts(name, values) {
    const labels = [...new Set(values)];
    const index = new Map(labels.map((label, at) => [label, at]));
    return { name, values: values.map((value) => index.get(value)), labels };
}

/** Returns the nodes with their states, and what each needs. */
export function nodesAsTable({ meta }) {
    const labels = new Map(meta.nodes.map(({ id, label }) => [id, label ?? id]));
    const needs = new Map(meta.nodes.map(({ id }) => [id, []]));
    for (const { source, target } of meta.edges ?? []) needs.get(target)?.push(labels.get(source) ?? source);
    return fromJson({
        columns: [
            texts(
                "node",
                meta.nodes.map(({ id, label }) => label ?? id),
            ),
            texts(
                "state",
                meta.nodes.map(({ state }) => state ?? "-"),
            ),
            texts(
                "detail",
                meta.nodes.map(({ detail }) => detail ?? "-"),
            ),
            texts(
                "after",
                meta.nodes.map(({ id }) => needs.get(id).join(", ") || "-"),
            ),
        ],
    });
}

/** Returns the edges with their amounts. */
export function edgesAsTable({ meta }) {
    const labels = new Map(meta.nodes.map(({ id, label }) => [id, label ?? id]));
    return fromJson({
        columns: [
            texts(
                "from",
                meta.edges.map(({ source }) => labels.get(source) ?? source),
            ),
            texts(
                "to",
                meta.edges.map(({ target }) => labels.get(target) ?? target),
            ),
            { name: "amount", values: meta.edges.map(({ value }) => value ?? null) },
        ],
    });
}
