// Places the nodes of a directed graph in layers: each node one layer after the last of those that it needs.

const SWEEPS = 8;
const ROUTE = "\u0000route "; // no id of a node begins so

/**
 * Returns the layers of a graph in which each edge goes to the next layer: a longer edge goes through nodes of its own,
 * which are in `routes` by the edge's index. Other edges (of cycles, or without a node) have the route null.
 */
export function routedLayers(nodes, edges) {
    const depth = new Map(layersOf(nodes, edges).flatMap((layer, index) => layer.map((id) => [id, index])));
    const allNodes = [...nodes];
    const allEdges = [];
    const routes = edges.map(({ source, target }, index) => {
        const length = (depth.get(target) ?? -1) - (depth.get(source) ?? Infinity);
        if (!(length >= 1)) return null;
        const inner = Array.from({ length: length - 1 }, (_, at) => `${ROUTE}${index}.${at}`);
        allNodes.push(...inner.map((id) => ({ id })));
        const route = [source, ...inner, target];
        for (let at = 1; at < route.length; at++) allEdges.push({ source: route[at - 1], target: route[at] });
        return inner;
    });
    return { layers: layersOf(allNodes, allEdges), routes };
}

/**
 * Returns the layers of a graph, each a list of node ids in the order that crosses few edges. The layer of a node is the
 * length of the longest path to it. Edges that close a cycle are ignored. Order by the barycenter method (Sugiyama 1981).
 */
export function layersOf(nodes, edges) {
    const parents = new Map(nodes.map(({ id }) => [id, []]));
    const children = new Map(nodes.map(({ id }) => [id, []]));
    for (const { source, target } of edges) {
        if (!parents.has(source) || !parents.has(target)) continue;
        parents.get(target).push(source);
        children.get(source).push(target);
    }
    const layers = [];
    for (const [id, layer] of longestPaths(nodes, parents, children)) (layers[layer] ??= []).push(id);
    for (let sweep = 0; sweep < SWEEPS; sweep++) {
        const isDown = sweep % 2 === 0;
        const order = isDown ? layers.slice(1) : layers.slice(0, -1).reverse();
        const places = placesIn(layers);
        for (const layer of order) {
            sortByNeighbours(layer, isDown ? parents : children, places);
            layer.forEach((id, place) => places.set(id, place / Math.max(1, layer.length - 1)));
        }
    }
    return layers;
}

function longestPaths(nodes, parents, children) {
    const layer = new Map();
    const missing = new Map(nodes.map(({ id }) => [id, parents.get(id).length]));
    const ready = nodes.filter(({ id }) => !missing.get(id)).map(({ id }) => id);
    for (const id of ready) layer.set(id, 0);
    for (let at = 0; at < ready.length; at++) {
        for (const child of children.get(ready[at])) {
            layer.set(child, Math.max(layer.get(child) ?? 0, layer.get(ready[at]) + 1));
            missing.set(child, missing.get(child) - 1);
            if (!missing.get(child)) ready.push(child);
        }
    }
    // Nodes of a cycle never get ready; they are shown in the first layer, or where their parents put them.
    return nodes.map(({ id }) => [id, layer.get(id) ?? 0]);
}

function placesIn(layers) {
    return new Map(
        layers.flatMap((layer) => layer.map((id, place) => [id, place / Math.max(1, layer.length - 1)])),
    );
}

function sortByNeighbours(layer, neighbours, places) {
    const center = new Map(
        layer.map((id) => {
            const near = neighbours.get(id).map((other) => places.get(other));
            return [
                id,
                near.length ? near.reduce((sum, place) => sum + place, 0) / near.length : places.get(id),
            ];
        }),
    );
    layer.sort((one, other) => center.get(one) - center.get(other));
}
