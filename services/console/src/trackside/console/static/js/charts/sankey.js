// Flows between nodes (ECharts), such as samples from collection to the models that were trained with them.
//
// The answer is JSON or packed with meta.nodes: [{id, label, state?}] and meta.edges: [{source, target, value}].

import { eChart, tooltip } from "./echarts.js";
import { edgesAsTable } from "./graph_table.js";
import { statusColors } from "./palette.js";
import { numberText } from "./text.js";

/** Draws the flows. */
export async function create(context) {
    return eChart(context, build, { asTable: edgesAsTable });
}

function build(table, colors) {
    const colorOf = statusColors();
    const { nodes, edges } = table.meta;
    const labels = new Map(nodes.map(({ id, label }) => [id, label ?? id]));
    return {
        tooltip: tooltip(
            ({ dataType, data, value }) =>
                dataType === "edge"
                    ? [
                          `${labels.get(data.source)} to ${labels.get(data.target)}`,
                          [[null, "amount", numberText(value)]],
                      ]
                    : [labels.get(data.name), [[null, "amount", numberText(value)]]],
            { trigger: "item" },
        ),
        series: [
            {
                type: "sankey",
                left: 8,
                right: 120,
                top: 10,
                bottom: 10,
                nodeGap: 12,
                nodeWidth: 12,
                draggable: false,
                label: {
                    color: colors.text,
                    fontSize: 12,
                    formatter: ({ name }) => labels.get(name),
                    width: 110,
                    overflow: "truncate",
                },
                lineStyle: { color: "source", opacity: 0.28 },
                emphasis: { focus: "adjacency" },
                data: nodes.map(({ id, state }, index) => ({
                    name: id,
                    itemStyle: {
                        color: state ? colorOf(state) : colors.series[index % colors.series.length],
                        borderWidth: 0,
                    },
                })),
                links: edges.map(({ source, target, value }) => ({ source, target, value })),
            },
        ],
    };
}
