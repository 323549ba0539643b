// Forms: command ids, problems at their fields, short addresses, and sliders.
//
// <input type="hidden" name="command_id" value="">: gets a new id. <form data-prune>: empty fields are left out of the
// address. <input type="range" data-slider-of="ID">: writes its value into the field with that id, and into an <output>
// of its label. An answer with [data-path] items is shown at the .field[data-path] of the form with the same path.

/** Returns a random id (UUID version 4). `crypto.randomUUID` is missing on plain HTTP beyond loopback. */
function newId() {
    if (crypto.randomUUID) return crypto.randomUUID();
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Gives a command id to each form that has none. A repeated click sends the same id, and the command runs once. */
function fillCommandIds() {
    for (const input of document.querySelectorAll("input[name=command_id]"))
        if (!input.value) input.value = newId();
}

/** Gives a form a new command id after an answer. Without an answer, or if the server failed, a retry keeps the id. */
function renewCommandId({ detail: { elt, xhr } }) {
    if (!xhr || xhr.status === 0 || xhr.status >= 500) return;
    const form = elt.closest?.("form");
    for (const input of form?.querySelectorAll("input[name=command_id]") ?? []) input.value = newId();
}

/** Moves the problems of an answer to their fields; those without a field stay in the answer. */
function placeProblems({ detail: { elt } }) {
    const form = elt.closest?.("form");
    if (!form) return;
    clearProblems(form);
    for (const item of form.querySelectorAll(".answer [data-path]")) {
        const field = fieldOf(form, item.dataset.path);
        if (field) addProblem(field, item);
    }
    form.querySelector("[aria-invalid=true]")?.focus();
}

/** Returns the field of a path, or of the path above it: a problem in a list is shown at the list's field. */
function fieldOf(form, path) {
    const fields = [...form.querySelectorAll(".field[data-path]")];
    const near = fields.filter(
        ({ dataset }) =>
            path === dataset.path ||
            path.startsWith(`${dataset.path}.`) ||
            path.startsWith(`${dataset.path}[`),
    );
    return near.sort((one, other) => other.dataset.path.length - one.dataset.path.length)[0];
}

function addProblem(field, item) {
    const input = field.querySelector("input, select, textarea");
    const error = document.createElement("p");
    error.className = "error";
    error.dataset.problem = "";
    error.id = `problem-${newId()}`;
    error.textContent = item.textContent.replace(item.dataset.path, "").trim();
    field.classList.add("invalid");
    field.dataset.keep = ""; // a change of the page would remove the problem
    field.append(error);
    input?.setAttribute("aria-invalid", "true");
    input?.setAttribute("aria-describedby", error.id);
    const list = item.parentElement;
    item.remove();
    if (list && !list.childElementCount) {
        const rest = document.createElement("p");
        rest.textContent = "The problems are at their fields.";
        list.replaceWith(rest);
    }
}

function clearProblems(form) {
    for (const error of form.querySelectorAll(".error[data-problem]")) error.remove();
    for (const field of form.querySelectorAll(".field.invalid")) {
        field.classList.remove("invalid");
        delete field.dataset.keep;
    }
    for (const input of form.querySelectorAll("[aria-invalid]")) {
        input.removeAttribute("aria-invalid");
        input.removeAttribute("aria-describedby");
    }
}

function prune({ target, formData }) {
    if (!target.matches("[data-prune]")) return;
    for (const name of new Set(formData.keys())) {
        const values = formData.getAll(name).filter((value) => value !== "");
        formData.delete(name);
        for (const value of values) formData.append(name, value);
    }
}

function followSlider({ target }) {
    if (target.dataset?.sliderOf !== undefined) {
        const field = document.getElementById(target.dataset.sliderOf);
        if (field) field.value = target.value;
        const label = document.querySelector(`label[for="${CSS.escape(target.id)}"]`);
        const output = label?.querySelector("output");
        if (output) output.textContent = target.value;
    }
}

/** Starts everything that forms need. */
export function startForms() {
    fillCommandIds();
    document.addEventListener("htmx:afterRequest", renewCommandId);
    document.addEventListener(
        "htmx:afterSwap",
        (event) => event.target.matches?.(".answer") && placeProblems({ detail: { elt: event.target } }),
    );
    for (const name of ["htmx:afterSettle", "console:morphed"])
        document.addEventListener(name, fillCommandIds);
    addEventListener("pageshow", fillCommandIds);
    document.addEventListener("formdata", prune);
    document.addEventListener("input", followSlider);
}
