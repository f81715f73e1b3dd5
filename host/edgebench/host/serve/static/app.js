// Live page: rows arrive as server-sent events; all texts in them are inserted as text, never as HTML.
"use strict";

/** Rows of each section, by key. */
const rows = Object.fromEntries(
  ["notes", "lanes", "campaigns", "devices", "runs"].map((section) => [section, Object.create(null)]),
);
/** Clock of the server minus that of this browser, in milliseconds. */
let clockOffset = 0;

/** An element with attributes and children; texts become text, never HTML. */
function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== "" && child !== null));
  return made;
}

function cell(label, ...children) {
  return make("td", { "data-label": label }, ...children);
}

/** A duration in its two largest units, as "1 h 05 min". */
function duration(seconds) {
  if (!Number.isFinite(seconds)) return "—"; // malformed date
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const two = (number) => String(number).padStart(2, "0");
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  if (hours) return `${hours} h ${two(minutes)} min`;
  return minutes ? `${minutes} min ${two(whole % 60)} s` : `${whole} s`;
}

function elapsed(sinceUtc) {
  return (Date.now() + clockOffset - Date.parse(sinceUtc)) / 1000;
}

/** An element whose text is written every second, as time passes. */
function ticking(tag, write) {
  const made = make(tag, { "data-ticking": "" });
  made.write = () => write(made);
  made.write();
  return made;
}

function ago(utc) {
  return ticking("span", (own) => {
    own.textContent = utc ? `${duration(elapsed(utc))} ago` : "—";
    own.title = utc || "";
  });
}

function left(seconds, sinceUtc) {
  return ticking("span", (own) => {
    own.textContent = `about ${duration(seconds - elapsed(sinceUtc))} left`;
  });
}

/** The word for a state or verdict, which is not broken between its letters. */
function stateWord(state) {
  return make("span", { class: `state ${state}` }, state);
}

function runLink(id) {
  return make("a", { href: `/runs/${encodeURIComponent(id)}` }, id);
}

function reading(name, value) {
  return value ? make("div", {}, make("dt", {}, name), make("dd", {}, value)) : "";
}

function phase(row) {
  const bar = make("progress", { max: row.expected_s, "aria-label": `${row.phase} on ${row.device}` });
  const words = ticking("p", (own) => {
    const passed = row.phase_begun_utc ? elapsed(row.phase_begun_utc) : 0;
    const of = row.expected_s ? ` of ${duration(row.expected_s)}` : "";
    own.textContent = `${row.phase}, ${row.reached || duration(passed) + of}`;
    if (row.expected_s > 0 && passed >= 0) bar.value = Math.min(passed, row.expected_s);
  });
  return [words, bar];
}

const draw = {
  notes: (row) => make("p", { class: "note" }, row.text),

  lanes: (row) => {
    const isMeasuring = row.state === "measuring";
    const which = row.count > 1 ? `run ${row.number} of ${row.count}: ` : "";
    const card = make(
      "article", { class: `card ${row.state.replace(" ", "-")}` },
      make("h3", {}, row.device),
      make("p", { class: "title" }, row.title ? which + row.title : ""),
    );
    if (row.phase) card.append(...phase(row));
    else card.append(make("p", {}, isMeasuring ? "preparing" : row.state));
    if (row.reason) card.append(make("p", { class: "reason" }, row.reason));
    card.append(make(
      "dl", {},
      reading("temperature", row.temperature),
      reading("clock", row.clock),
      reading("power", row.power),
      reading("stored", String(row.stored_count)),
      reading("failed", row.failed_count ? String(row.failed_count) : ""),
    ));
    if (isMeasuring && row.runs_left_s !== null && row.run_begun_utc) {
      card.append(make("p", {}, left(row.runs_left_s, row.run_begun_utc)));
    }
    if (row.state === "between runs" && row.run_id && row.stored_count) {
      card.append(make("p", {}, "last run: ", runLink(row.run_id)));
    }
    card.append(make("p", { class: "faint" }, row.command));
    return card;
  },

  campaigns: (row, key, before) => {
    const done = row.measured_count + row.failed_count;
    const counts = [`${row.measured_count} of ${row.run_count} runs measured`];
    if (row.failed_count) counts.push(`${row.failed_count} failed`);
    if (row.left_count) counts.push(`${row.left_count} left`);
    const state = row.is_running ? "running" : row.left_count ? "stopped" : "ended";
    const summary = make("p", { class: state }, `${state}: ${counts.join(", ")}`);
    if (row.left_s) summary.append(", ", left(row.left_s, row.at_utc));
    const lanes = row.lanes.map((lane) => make(
      "tr", {},
      cell("device", lane.device), cell("state", stateWord(lane.state)),
      cell("measured", String(lane.measured_count)), cell("failed", String(lane.failed_count)),
      cell("left", String(lane.left_count)),
    ));
    const names = ["device", "state", "measured", "failed", "left"];
    const details = make(
      "details", {}, make("summary", {}, `${row.lanes.length} devices`),
      make("table", {},
        make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...lanes)),
    );
    details.open = Boolean(before && before.querySelector("details").open);
    return make(
      "article", { class: "campaign" },
      make("h3", {}, row.name, make("span", { class: "faint" }, ` ${key}`)),
      make("progress", { max: row.run_count, value: done, "aria-label": `runs of ${row.name}` }),
      summary, details,
    );
  },

  devices: (row) => make(
    "tr", {},
    cell("device", make("strong", {}, row.device), " ", make("span", { class: "faint" }, row.address)),
    cell("state", stateWord(row.health), row.remark ? `: ${row.remark}` : ""),
    cell("in use by", row.used_by || "—"),
    cell("seen", ago(row.seen_utc)),
    cell("labels, meter", [row.labels, row.meter].filter(Boolean).join("; ") || "—"),
  ),

  runs: (row) => {
    const history = new URLSearchParams({ device: row.device, model: row.model });
    return make(
      "tr", {},
      cell("run", runLink(row.run_id), row.tags ? make("span", { class: "faint" }, ` ${row.tags}`) : ""),
      cell("device", row.device),
      cell("model", `${row.model} on ${row.runtime}, ${row.scenario} `, make("a", { href: `/history?${history}` }, "history")),
      cell("result", make("span", { class: "number" }, `${row.number} ${row.metric}`)),
      cell("energy per inference", row.energy || "—"),
      cell("verdict", stateWord(row.verdict), row.remark ? `, ${row.remark}` : ""),
      cell("stored", ago(row.created_utc)),
    );
  },
};

const byName = (section) => (one, other) => one.localeCompare(other, undefined, { numeric: true });
const newestFirst = (section) => (one, other) =>
  rows[section][other].created_utc.localeCompare(rows[section][one].created_utc) || other.localeCompare(one);
const order = { notes: byName, lanes: byName, campaigns: newestFirst, devices: byName, runs: newestFirst };

function update(section, changed) {
  const place = document.getElementById(section);
  const drawn = new Map([...place.children].map((one) => [one.dataset.key, one]));
  for (const [key, row] of Object.entries(changed)) {
    const before = drawn.get(key);
    if (row === null) {
      delete rows[section][key];
      drawn.delete(key);
      if (before) before.remove();
      continue;
    }
    rows[section][key] = row;
    const made = draw[section](row, key, before);
    made.dataset.key = key;
    if (before) before.replaceWith(made);
    else place.append(made);
    drawn.set(key, made);
  }
  Object.keys(rows[section]).sort(order[section](section)).forEach((key, index) => {
    if (place.children[index] !== drawn.get(key)) place.insertBefore(drawn.get(key), place.children[index]);
  });
  const empty = place.closest("section").querySelector(".empty");
  if (empty) {
    empty.textContent = empty.dataset.text; // replaces the loading text
    empty.hidden = place.children.length > 0;
  }
  if (place.closest("table")) place.closest("table").hidden = place.children.length === 0;
}

function take(message) {
  clockOffset = Date.parse(message.at_utc) - Date.now();
  for (const section of Object.keys(rows)) {
    const changed = message.sections[section] || {};
    if (message.is_whole) {
      for (const key of Object.keys(rows[section])) if (!(key in changed)) changed[key] = null;
    }
    update(section, changed);
  }
}

function showLink(text, className) {
  const link = document.getElementById("link");
  if (link.textContent === text) return; // an unchanged status would be read out again
  link.textContent = text;
  link.className = className;
}

function follow() {
  const source = new EventSource("/events");
  source.onopen = () => showLink("loading", ""); // the first message follows once the store is read
  source.onerror = () => {
    const isClosed = source.readyState === EventSource.CLOSED;
    showLink(isClosed ? "not connected: is edgebench serve running? reload this page" : "connection lost, trying again", "lost");
  };
  source.onmessage = (event) => {
    take(JSON.parse(event.data));
    showLink("live", "live");
  };
}

setInterval(() => { for (const one of document.querySelectorAll("[data-ticking]")) one.write(); }, 1000);
follow();
