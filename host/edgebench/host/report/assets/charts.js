"use strict";
/* Draws the charts of a report from the JSON next to each chart.

   All panels of a time chart share one view, [begin, end] in seconds, and are redrawn when it
   changes. Texts are set by textContent only, because names of models and sensors can contain
   anything. */
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const LEFT = 62, RIGHT = 10, TOP = 22, BOTTOM = 20, SHARE_AXIS = 50;
  const charts = [];

  function add(parent, name, attributes = {}, text = null) {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    parent.append(element);
    return element;
  }

  function addHtml(parent, name, className, text = null) {
    const element = document.createElement(name);
    element.className = className;
    if (text !== null) element.textContent = text;
    parent.append(element);
    return element;
  }

  /* Values of a base64 text of little-endian float32: browsers run on little-endian machines only. */
  function floats(text) {
    return new Float32Array(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer);
  }

  const SCALED = {
    ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
    s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
    hz: [[1e9, "GHz"], [1e6, "MHz"], [1e3, "kHz"], [1, "Hz"]],
    w: [[1, "W"], [1e-3, "mW"], [1e-6, "µW"], [1e-9, "nW"]],
    count: [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]],
    bytes: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
    j: [[1e3, "kJ"], [1, "J"], [1e-3, "mJ"], [1e-6, "µJ"], [1e-9, "nJ"]],
  };

  /* A value with its unit. The distance of the ticks, `step`, sets the digits; the largest tick,
     `most`, sets the unit, so that all ticks have the same. */
  function show(value, unit, step = 0, most = Math.max(Math.abs(value), step)) {
    if (!Number.isFinite(value)) return "—";
    let scale = 1, name = { c: "°C", ratio: "%" }[unit] ?? "";
    if (unit === "ratio") scale = 0.01;
    if (SCALED[unit]) {
      const size = most * (1 + 1e-9);
      const all = SCALED[unit];
      [scale, name] = all.find(([divisor]) => size >= divisor) ?? all[all.length - 1];
    }
    const scaled = value / scale;
    let text = String(Number(scaled.toPrecision(3)));
    if (step > 0) text = scaled.toFixed(Math.min(6, Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9))));
    return name ? `${text} ${name}` : text;
  }

  function ticks(low, high, count) {
    const rough = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough);
    const values = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9 && values.length < 50; at += step) {
      values.push(Math.abs(at) < step * 1e-9 ? 0 : at);
    }
    return [values, step];
  }

  /* Ticks of a logarithmic axis: with as few digits as give at least four of them. */
  function logTicks(low, high) {
    let values = [];
    for (const digits of [[1], [1, 3], [1, 2, 5], [1, 2, 3, 5, 7], [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]]) {
      values = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
        for (const digit of digits) {
          const at = digit * 10 ** power;
          if (at >= low && at <= high) values.push(at);
        }
      }
      if (values.length >= 4) break;
    }
    return values;
  }

  /* A scale from values to pixels; the range of a single value is widened. */
  function scaleOf(low, high, from, to, isLog) {
    if (!(high > low)) { const half = Math.abs(low) * 0.05 || 1; low -= half; high += half; }
    const map = isLog ? Math.log : (value) => value;
    const [a, b] = [map(low), map(high)];
    const scale = (value) => from + (map(value) - a) / (b - a) * (to - from);
    scale.low = low;
    scale.high = high;
    scale.isLog = isLog;
    return scale;
  }

  function padded(low, high, isLog) {
    if (isLog) { const pad = (high / low) ** 0.05; return [low / pad, high * pad]; }
    const pad = 0.06 * (high - low);
    return [low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
  }

  function axisY(svg, scale, unit, width) {
    const space = Math.abs(scale(scale.low) - scale(scale.high));
    let [values, step] = scale.isLog ? [logTicks(scale.low, scale.high), 0] : ticks(scale.low, scale.high, space / 34);
    if (values.length < 2 && scale.isLog) [values, step] = ticks(scale.low, scale.high, 3);
    for (const value of values) {
      const y = scale(value);
      add(svg, "path", { class: "grid", d: `M${LEFT} ${y}H${width - RIGHT}` });
      add(svg, "text", { class: "axis", x: LEFT - 6, y: y + 4, "text-anchor": "end" }, show(value, unit, step, largest(values, step)));
    }
  }

  function axisX(svg, scale, unit, top, bottom) {
    const space = scale(scale.high) - scale(scale.low);
    let [values, step] = scale.isLog ? [logTicks(scale.low, scale.high), 0] : ticks(scale.low, scale.high, space / 90);
    if (values.length < 2 && scale.isLog) [values, step] = ticks(scale.low, scale.high, 3);
    for (const value of values) {
      const x = scale(value);
      add(svg, "path", { class: "grid", d: `M${x} ${top}V${bottom}` });
      add(svg, "text", { class: "axis", x, y: bottom + 15, "text-anchor": "middle" }, show(value, unit, step, largest(values, step)));
    }
  }

  /* Size by which all ticks of a linear axis get one unit; undefined on a logarithmic one. */
  function largest(values, step) {
    return step ? Math.max(...values.map(Math.abs), step) : undefined;
  }

  function newSvg(parent, width, height, title, description) {
    const svg = add(parent, "svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img" });
    add(svg, "title", {}, title);
    add(svg, "desc", {}, description);
    return svg;
  }

  function firstAtOrAfter(times, time) {
    let low = 0, high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < time) low = middle + 1; else high = middle;
    }
    return low;
  }

  /* A decoded trace, drawn in a view as columns of the screen, or as single values. */
  class Trace {
    constructor(data) {
      Object.assign(this, data);
      for (const name of ["time", "end", "value", "low", "mean", "high", "inferences"]) this[name] = floats(data[name]);
      this.isStack = this.form === "stack";
      this.isBand = this.form === "band" || this.isStack;
      this.step = this.isBand ? (this.end_s - this.begin_s) / this.count : 0;
    }

    range(view) {
      if (this.form === "windows") {
        return [firstAtOrAfter(this.end, view[0]), firstAtOrAfter(this.time, view[1])];
      }
      if (this.isBand) {
        const clip = (at) => Math.min(this.count, Math.max(0, at));
        return [clip(Math.floor((view[0] - this.begin_s) / this.step)), clip(Math.ceil((view[1] - this.begin_s) / this.step))];
      }
      const first = firstAtOrAfter(this.time, view[0]), last = firstAtOrAfter(this.time, view[1]);
      return [Math.max(0, first - 1), Math.min(this.count, last + 1)];
    }

    /* Columns {begin, end, low, mean, high}; null if there are few enough values to draw each. */
    columns(view, width) {
      const [first, last] = this.range(view);
      const isBand = this.isBand;
      if (!isBand && last - first <= 2 * width) return null;
      const most = Math.max(1, Math.floor(width));
      const isDirect = isBand && last - first <= most;
      const columns = [];
      let index = first;
      for (let column = 0; column < (isDirect ? last - first : most); column++) {
        let begin = view[0] + (view[1] - view[0]) * column / most;
        let end = view[0] + (view[1] - view[0]) * (column + 1) / most;
        if (isDirect) { begin = this.begin_s + (first + column) * this.step; end = begin + this.step; }
        let low = Infinity, high = -Infinity, sum = 0, count = 0;
        for (; index < last && (isDirect ? index === first + column : this.at(index) < end || column === most - 1); index++) {
          const mean = isBand ? this.mean[index] : this.value[index];
          if (!Number.isFinite(mean)) continue;
          low = Math.min(low, isBand ? this.low[index] : mean);
          high = Math.max(high, isBand ? this.high[index] : mean);
          sum += mean;
          count += 1;
        }
        columns.push(count ? { begin, end, low, mean: sum / count, high } : null);
      }
      return columns;
    }

    at(index) {
      return this.isBand ? this.begin_s + (index + 0.5) * this.step : this.time[index];
    }

    bounds(view) {
      const [first, last] = this.range(view);
      let low = Infinity, high = -Infinity;
      for (let index = first; index < last; index++) {
        const range = this.isBand ? [this.low[index], this.high[index]] : [this.value[index], this.value[index]];
        if (Number.isFinite(range[0])) { low = Math.min(low, range[0]); high = Math.max(high, range[1]); }
      }
      return [low, high];
    }

    text(time, view, unit) {
      if (this.isBand) {
        const index = Math.floor((time - this.begin_s) / this.step);
        if (!(index >= 0 && index < this.count) || !Number.isFinite(this.mean[index])) return "—";
        if (this.isStack) return show(this.high[index] - this.low[index], unit);
        return `${show(this.mean[index], unit)} (${show(this.low[index], unit)} to ${show(this.high[index], unit)})`;
      }
      let index = firstAtOrAfter(this.time, time);
      if (this.form === "windows") {
        index -= 1;
        if (index < 0 || time > this.end[index]) return "—";
        return `window ${index + 1}: ${show(this.value[index], unit)}, ${this.inferences[index].toLocaleString("en")} inferences`;
      }
      if (index > 0 && (index === this.count || time - this.time[index - 1] < this.time[index] - time)) index -= 1;
      const isNear = index < this.count && Math.abs(this.time[index] - time) < 0.03 * (view[1] - view[0]);
      return isNear ? show(this.value[index], unit) : "—";
    }

    draw(plot, color, x, y, view, width) {
      if (this.form === "windows") return this.drawWindows(plot, color, x, y, view);
      const columns = this.columns(view, width);
      if (columns === null) return this.drawValues(plot, color, x, y, view);
      let area = "", line = "";
      for (let first = 0; first < columns.length; first++) {
        if (!columns[first]) continue;
        let last = first;
        while (columns[last + 1]) last += 1;
        const part = columns.slice(first, last + 1);
        const upper = part.map((column) => `L${x(column.begin).toFixed(1)} ${y(column.high).toFixed(1)}H${x(column.end).toFixed(1)}`);
        const lower = part.reverse().map((column) => `L${x(column.end).toFixed(1)} ${y(column.low).toFixed(1)}H${x(column.begin).toFixed(1)}`);
        area += `M${upper.join("").slice(1)}${lower.join("")}Z`;
        part.reverse();
        const means = part.map((column) => `L${x((column.begin + column.end) / 2).toFixed(1)} ${y(column.mean).toFixed(1)}`).join("");
        line += part.length > 1 ? `M${means.slice(1)}` : `M${x(part[0].begin).toFixed(1)} ${y(part[0].mean).toFixed(1)}H${Math.max(x(part[0].end), x(part[0].begin) + 1).toFixed(1)}`;
        first = last;
      }
      add(plot, "path", { class: `area c${color}${this.isStack ? " stack" : ""}`, d: area });
      if (!this.isStack) add(plot, "path", { class: `line c${color}`, d: line });
    }

    /* A bar from the start to the end of each window, with its number of inferences. */
    drawWindows(plot, color, x, y, view) {
      const [first, last] = this.range(view);
      let path = "";
      for (let index = first; index < last; index++) {
        if (!Number.isFinite(this.value[index])) continue;
        const [begin, end, height] = [x(this.time[index]), x(this.end[index]), y(this.value[index])];
        path += `M${begin.toFixed(1)} ${height.toFixed(1)}H${Math.max(end, begin + 3).toFixed(1)}`;
        const text = this.inferences.length ? this.inferences[index].toLocaleString("en") : "";
        if (text && end - begin > 7 * text.length + 4) add(plot, "text", { class: "axis", x: (begin + end) / 2, y: height - 6, "text-anchor": "middle" }, text);
      }
      add(plot, "path", { class: `windows c${color}`, d: path });
    }

    drawValues(plot, color, x, y, view) {
      const [first, last] = this.range(view);
      let path = "", isOpen = false;
      for (let index = first; index < last; index++) {
        if (!Number.isFinite(this.value[index])) { isOpen = false; continue; }
        const place = `${x(this.time[index]).toFixed(1)} ${y(this.value[index]).toFixed(1)}`;
        path += `${isOpen ? "L" : "M"}${place}`;
        isOpen = true;
      }
      add(plot, "path", { class: `line c${color}`, d: path });
    }
  }

  /* Latencies by intervals of inferences: line of p50, band from p10 to p90, dots for the slowest of
     each interval. Zooming selects a finer resolution; the finest has a dot for each inference. */
  class LatencyTrace {
    constructor(data) {
      this.name = data.name;
      this.form = data.form;
      this.resolutions = data.resolutions.map((resolution) => {
        const columns = { size: resolution.size };
        for (const name of ["time", "p50", "p10", "p90", "max"]) columns[name] = resolution[name] ? floats(resolution[name]) : columns.p50;
        return columns;
      });
    }

    /* The finest resolution with as many intervals in the view as the coarsest has in the run. */
    at(view) {
      const most = 1.5 * this.resolutions[0].time.length;
      let chosen = null;
      for (const resolution of this.resolutions) {
        const first = Math.max(0, firstAtOrAfter(resolution.time, view[0]) - 1);
        const last = Math.min(resolution.time.length, firstAtOrAfter(resolution.time, view[1]) + 1);
        if (chosen === null || last - first <= most) chosen = { ...resolution, first, last };
      }
      return chosen;
    }

    bounds(view) {
      const shown = this.at(view);
      let low = Infinity, high = -Infinity;
      for (let index = shown.first; index < shown.last; index++) {
        low = Math.min(low, shown.p10[index]);
        high = Math.max(high, shown.max[index]);
      }
      return [low, high];
    }

    text(time, view, unit) {
      const shown = this.at(view);
      let index = firstAtOrAfter(shown.time, time);
      if (index > 0 && (index === shown.time.length || time - shown.time[index - 1] < shown.time[index] - time)) index -= 1;
      const isNear = index < shown.time.length && Math.abs(shown.time[index] - time) < 0.03 * (view[1] - view[0]);
      if (!isNear) return "—";
      if (shown.size === 1) return show(shown.p50[index], unit);
      return `p50 ${show(shown.p50[index], unit)} (p10 to p90 ${show(shown.p10[index], unit)} to ${show(shown.p90[index], unit)}, max ${show(shown.max[index], unit)})`;
    }

    draw(plot, color, x, y, view) {
      const shown = this.at(view), top = y(y.high) + 2;
      let upper = "", lower = "", line = "", dots = "", above = "";
      for (let index = shown.first; index < shown.last; index++) {
        const at = x(shown.time[index]).toFixed(1);
        line += `L${at} ${y(shown.p50[index]).toFixed(1)}`;
        upper += `L${at} ${y(shown.p90[index]).toFixed(1)}`;
        lower = `L${at} ${y(shown.p10[index]).toFixed(1)}${lower}`;
        if (shown.max[index] > y.high) above += `M${at} ${top}v5`;
        else if (shown.size === 1 || shown.max[index] > shown.p90[index]) dots += `M${at} ${y(shown.max[index]).toFixed(1)}h0`;
      }
      const isSingle = shown.size === 1;
      if (!isSingle && line) add(plot, "path", { class: `area c${color}`, d: `M${upper.slice(1)}${lower}Z` });
      add(plot, "path", { class: `dots c${color}${isSingle ? "" : " slowest"}`, d: dots });
      add(plot, "path", { class: "above", d: above });
      if (!isSingle && line) add(plot, "path", { class: `line p50 c${color}`, d: `M${line.slice(1)}` });
    }
  }

  class TimeChart {
    constructor(figure, data) {
      this.figure = figure;
      this.full = data.end_s > data.begin_s ? [data.begin_s, data.end_s] : [data.begin_s, data.begin_s + 1e-6];
      this.view = [...this.full];
      this.spans = data.spans;
      this.panels = data.panels.map((panel) => ({ ...panel, traces: panel.traces.map((trace) => trace.form === "latency" ? new LatencyTrace(trace) : new Trace(trace)) }));
      this.pointers = new Map();
      this.isStrip = data.is_strip;
      if (this.isStrip) {
        this.area = addHtml(figure, "div", "strip");
        return;
      }
      figure.tabIndex = 0;
      const bar = addHtml(figure, "div", "tools");
      this.readout = addHtml(bar, "span", "readout");
      for (const [text, label, action] of [
        ["+", "Zoom in", () => this.zoom(0.5)],
        ["−", "Zoom out", () => this.zoom(2)],
        ["◂", "Earlier", () => this.pan(-0.25)],
        ["▸", "Later", () => this.pan(0.25)],
        ["Reset", "Reset: show everything", () => this.show(this.full)],
      ]) {
        const button = addHtml(bar, "button", "", text);
        button.type = "button";
        button.title = label;
        button.setAttribute("aria-label", label);
        button.addEventListener("click", action);
      }
      this.area = addHtml(figure, "div", "panels");
      addHtml(figure, "figcaption", "note", "Drag to zoom, double-click to reset; Ctrl and wheel, or two fingers, also zoom. Keys: + − ← → 0, and Shift with ← → for the values.");
      this.listen();
    }

    listen() {
      const area = this.area;
      area.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        this.pointers.set(event.pointerId, event.clientX);
        this.drag = this.pointers.size === 1 ? this.time(event.clientX) : null;
        if (this.pointers.size === 2) this.pinch = [...this.pointers.values()].map((at) => this.time(at));
        area.setPointerCapture(event.pointerId);
      });
      area.addEventListener("pointermove", (event) => {
        if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, event.clientX);
        if (this.pointers.size === 2) this.pinchTo([...this.pointers.values()]);
        else this.point(this.time(event.clientX));
      });
      const end = (event) => {
        const isDrag = this.pointers.size === 1 && this.drag !== null && this.drag !== undefined;
        const [from, to] = [this.drag, this.time(event.clientX)];
        this.pointers.delete(event.pointerId);
        this.drag = null;
        if (isDrag && event.type === "pointerup" && Math.abs(this.x(from) - this.x(to)) > 5) {
          this.show([Math.min(from, to), Math.max(from, to)]);
        } else this.point(to);
      };
      area.addEventListener("pointerup", end);
      area.addEventListener("pointercancel", end);
      area.addEventListener("pointerleave", () => this.point(null));
      area.addEventListener("dblclick", () => this.show(this.full));
      area.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.figure) return;
        event.preventDefault();
        this.zoom(1.2 ** Math.sign(event.deltaY), this.time(event.clientX));
      }, { passive: false });
      this.figure.addEventListener("keydown", (event) => {
        const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
        if (step && event.shiftKey) this.point((this.at ?? (this.view[0] + this.view[1]) / 2) + step * 0.01 * (this.view[1] - this.view[0]));
        else if (step) this.pan(0.1 * step);
        else if (event.key === "+" || event.key === "=") this.zoom(0.5);
        else if (event.key === "-") this.zoom(2);
        else if (event.key === "0" || event.key === "Home" || event.key === "Escape") this.show(this.full);
        else return;
        event.preventDefault();
      });
    }

    /* Time at a horizontal position on the screen. */
    time(clientX) {
      const box = this.area.getBoundingClientRect();
      const part = (clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      return this.view[0] + Math.min(1, Math.max(0, part)) * (this.view[1] - this.view[0]);
    }

    show([begin, end]) {
      const least = (this.full[1] - this.full[0]) * 1e-6;
      const length = Math.max(least, end - begin);
      begin = Math.max(Math.min(begin, this.full[1] - length), this.full[0]);
      this.view = length < this.full[1] - this.full[0] ? [begin, begin + length] : [...this.full];
      this.draw();
    }

    zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
      this.show(this.view.map((time) => around + (time - around) * factor));
    }

    pan(part) {
      const by = part * (this.view[1] - this.view[0]);
      this.show(this.view.map((time) => time + by));
    }

    /* Zooms so that the times first touched by two fingers stay under the fingers. */
    pinchTo(places) {
      const box = this.area.getBoundingClientRect();
      const parts = places.map((at) => (at - box.left - LEFT) / (box.width - LEFT - RIGHT));
      if (Math.abs(parts[0] - parts[1]) < 0.02) return;
      const length = (this.pinch[1] - this.pinch[0]) / (parts[1] - parts[0]);
      if (length > 0) this.show([this.pinch[0] - parts[0] * length, this.pinch[0] + (1 - parts[0]) * length]);
    }

    /* Shows the values of all panels at a time; null hides them. */
    point(time) {
      this.at = time;
      const isOn = time !== null && this.x !== undefined;
      const step = (this.view[1] - this.view[0]) / 1000;
      this.readout.textContent = isOn ? show(time, "s", step) : this.view.map((end) => show(end, "s", step, largest(this.view, step))).join(" to ");
      for (const panel of this.panels) {
        if (!panel.cursor) continue;
        panel.cursor.setAttribute("d", isOn ? `M${this.x(time)} ${TOP}V${panel.bottom}` : "");
        panel.traces.forEach((trace, number) => {
          const value = isOn ? trace.text(time, this.view, panel.unit) : "";
          panel.keys[number].textContent = panel.traces.length > 1 ? `■ ${trace.name} ${value}` : value || panel.hint;
        });
        const [a, b] = this.drag != null && isOn ? [this.x(this.drag), this.x(time)] : [0, 0];
        panel.selection.setAttribute("x", Math.min(a, b));
        panel.selection.setAttribute("width", Math.abs(a - b));
      }
    }

    draw() {
      const width = this.figure.clientWidth;
      if (!width) return;  // in a closed part of the page
      this.area.replaceChildren();
      this.x = scaleOf(this.view[0], this.view[1], LEFT, width - RIGHT, false);
      this.figure.dataset.begin = this.view[0];
      this.figure.dataset.end = this.view[1];
      if (!this.isStrip) this.drawSpans(width);
      this.panels.forEach((panel, number) => this.drawPanel(panel, width, number === this.panels.length - 1));
      if (this.isStrip) this.nameStrip();
      else this.point(null);
    }

    /* Names of the traces of a strip, which has no values under the pointer. */
    nameStrip() {
      for (const panel of this.panels) {
        panel.traces.forEach((trace, number) => { panel.keys[number].textContent = panel.traces.length > 1 ? `■ ${trace.name}` : trace.name; });
      }
    }

    drawSpans(width) {
      const shown = this.spans.filter((span) => span.end_s >= this.view[0] && span.begin_s <= this.view[1]);
      if (!shown.length) return;
      const svg = newSvg(this.area, width, 22, "Phases", "Phases of the run, windows and throttled times");
      const plot = add(svg, "svg", { x: LEFT, y: 0, width: Math.max(1, width - LEFT - RIGHT), height: 22, overflow: "hidden" });
      for (const span of shown) {
        const [begin, end] = [this.x(span.begin_s) - LEFT, this.x(span.end_s) - LEFT];
        const isPhase = span.kind === "phase";
        const group = add(plot, "g", {});
        add(group, "rect", { class: `span ${span.kind} ${span.name}`, x: begin, y: isPhase ? 0 : 17, width: Math.max(0.5, end - begin), height: isPhase ? 16 : 5 });
        const from = Math.max(begin, 0), to = Math.min(end, width - LEFT - RIGHT);
        const name = span.name.replaceAll("_", " ");
        if (isPhase && to - from > 7 * name.length + 6) add(group, "text", { class: "axis", x: (from + to) / 2, y: 12, "text-anchor": "middle" }, name);
        add(group, "title", {}, `${span.kind} ${name}, ${show(span.begin_s, "s")} to ${show(span.end_s, "s")}`);
      }
    }

    /* Limits and levels, each with its name at the right end, above its line if there is room. */
    drawReferences(plot, panel, y, inner) {
      for (const { name, value } of panel.references) {
        const at = y(value);
        add(plot, "path", { class: "reference", d: `M${LEFT} ${at}H${LEFT + inner}` });
        add(plot, "text", { class: "axis value halo", x: LEFT + inner - 4, y: at < TOP + 14 ? at + 12 : at - 4, "text-anchor": "end" }, `${name} ${show(value, panel.unit)}`);
      }
    }

    drawPanel(panel, width, isLast) {
      const height = (this.isStrip ? 96 : panel.unit === "ns" || panel.unit === "w" ? 190 : 120) + (isLast ? BOTTOM : 4);
      const bounds = panel.traces.map((trace) => trace.bounds(this.view)).reduce((a, b) => [Math.min(a[0], b[0]), Math.max(a[1], b[1])]);
      const hasValues = Number.isFinite(bounds[0]);
      const bottom = panel.bottom = height - (isLast ? BOTTOM : 4);
      const text = hasValues ? `${show(bounds[0], panel.unit)} to ${show(bounds[1], panel.unit)}` : "no values";
      const svg = newSvg(this.area, width, height, `${panel.title} over time`, `${text}, from ${show(this.view[0], "s")} to ${show(this.view[1], "s")}. ${panel.note}`);
      svg.dataset.begin = this.view[0];
      svg.dataset.end = this.view[1];
      svg.dataset.panel = panel.title;
      const hasAxis = panel.low !== null;  // with the same axis at any zoom
      if (hasAxis) [bounds[0], bounds[1]] = [panel.low, panel.high];
      for (const { value } of hasValues ? panel.references : []) {
        bounds[0] = Math.min(bounds[0], value);
        bounds[1] = Math.max(bounds[1], value);
      }
      // The axis of a ratio starts at 0; otherwise a change from 99.8 to 100 % would fill the panel.
      if (panel.unit === "ratio" && hasValues) [bounds[0], bounds[1]] = [0, Math.max(1, bounds[1])];
      // At least 1 % high for windows; otherwise a single tick of the counter would fill the panel.
      const least = panel.traces[0].form === "windows" ? 0.005 * (bounds[0] + bounds[1]) / 2 : 0;
      if (bounds[1] - bounds[0] < 2 * least) [bounds[0], bounds[1]] = [(bounds[0] + bounds[1]) / 2 - least, (bounds[0] + bounds[1]) / 2 + least];
      const y = scaleOf(...(hasValues && panel.unit !== "ratio" ? padded(...bounds, false) : [0, hasValues ? bounds[1] : 1]), bottom, TOP, false);
      axisX(svg, this.x, isLast ? "s" : "none", TOP, bottom);
      if (!isLast) svg.querySelectorAll("text").forEach((label) => label.remove());
      if (hasValues) axisY(svg, y, panel.unit, width);
      const inner = Math.max(1, width - LEFT - RIGHT);
      const plot = add(svg, "svg", { x: LEFT, y: TOP, width: inner, height: bottom - TOP, viewBox: `${LEFT} ${TOP} ${inner} ${bottom - TOP}`, overflow: "hidden" });
      for (const span of this.spans) {
        if (span.kind !== "throttled") continue;
        add(plot, "rect", { class: "throttled", x: this.x(span.begin_s), y: TOP, width: Math.max(0.5, this.x(span.end_s) - this.x(span.begin_s)), height: bottom - TOP });
      }
      if (hasValues) panel.traces.forEach((trace, color) => trace.draw(plot, color % 6, this.x, y, this.view, inner));
      if (hasValues) this.drawReferences(plot, panel, y, inner);
      panel.selection = add(plot, "rect", { class: "selection", x: 0, y: TOP, width: 0, height: bottom - TOP });
      panel.cursor = add(svg, "path", { class: "cursor" });
      const title = add(svg, "text", { class: "title", x: LEFT, y: 14 }, panel.title);
      panel.hint = width > 620 ? panel.note : "";
      panel.keys = panel.traces.map((_, color) => add(title, "tspan", { class: panel.traces.length > 1 ? `key c${color % 6}` : "axis", dx: 8 }));
    }
  }

  /* Histograms, each as a share of its own latencies, with cumulative shares on an axis of their own. */
  class DistributionChart {
    constructor(figure, data) {
      this.figure = figure;
      this.data = data;
    }

    draw() {
      const { figure, data } = this, width = figure.clientWidth, height = 270, top = 56, bottom = height - BOTTOM;
      if (!width) return;
      figure.replaceChildren();
      const isOverlaid = data.histograms.length > 1;
      const right = data.ecdfs.length ? SHARE_AXIS : RIGHT;
      const x = scaleOf(data.edges[0], data.edges[data.edges.length - 1], LEFT, width - right, data.is_log);
      const totals = data.histograms.map((one) => one.counts.reduce((a, b) => a + b, 0) + one.below_count + one.above_count);
      const most = Math.max(...data.histograms.map((one, group) => Math.max(...one.counts, 1) / totals[group]));
      const bars = scaleOf(0, most * 1.05, bottom, top, false), ecdf = scaleOf(0, 1, bottom, top, false);
      const what = isOverlaid ? data.histograms.map((one) => one.name).join("; ") : `${totals[0]} latencies`;
      const svg = newSvg(figure, width, height, "Distribution of the latency", `Histogram of ${what} from ${show(x.low, data.unit)} to ${show(x.high, data.unit)} with the cumulative share`);
      axisX(svg, x, data.unit, top, bottom);
      axisY(svg, bars, "ratio", width - right + RIGHT);
      for (const share of data.ecdfs.length ? [0, 0.25, 0.5, 0.75, 1] : []) {  // the line has an axis of its own
        add(svg, "text", { class: "axis", x: width - right + 6, y: ecdf(share) + 4 }, show(share, "ratio"));
      }
      data.histograms.forEach((one, group) => this.drawBars(svg, one, totals[group], group, x, bars, bottom));
      for (const run of data.ecdfs) {
        const last = run.quantiles.length - 1;
        const path = run.quantiles.map((value, index) => value > x.high ? "" : `${x(Math.max(x.low, value)).toFixed(1)} ${ecdf(index / last).toFixed(1)}`).filter(Boolean);
        if (!path.length) continue;
        const line = add(svg, "path", { class: isOverlaid ? `line overlaid c${run.group % 6}` : "line ecdf", d: `M${path.join("L")}` });
        add(line, "title", {}, `cumulative share, ${run.name}`);
      }
      const hasShading = this.drawMarks(svg, x, top, bottom, width, right);
      data.histograms.forEach((one, group) => {
        if (isOverlaid) addHtml(addHtml(figure, "div", "note"), "span", `key c${group % 6}`, `■ ${one.name}`);
      });
      const outside = data.histograms.map((one, group) => [one.below_count + one.above_count, totals[group]]);
      const isOutside = outside.some(([count]) => count > 0);
      const shares = isOverlaid ? outside.map(([count, total]) => show(count / total, "ratio")).join(" and ") : outside.map(([count, total]) => `${count} of ${total}`).join();
      const of = isOverlaid ? " of each result" : data.ecdfs.length > 1 ? " of each run" : "";
      addHtml(figure, "figcaption", "note", `${data.note ? `${data.note}. ` : ""}Bars: share of the latencies${isOutside ? `; ${shares} are outside the axis` : ""}. ${isOverlaid ? "Lines" : "Line"} (right axis): cumulative share${of}.${hasShading ? " Shaded: 95 % interval of a percentile." : ""}`);
    }

    drawBars(svg, histogram, total, group, x, bars, bottom) {
      const { data } = this;
      histogram.counts.forEach((count, index) => {
        if (!count) return;
        const from = x(data.edges[index]), to = x(data.edges[index + 1]), y = bars(count / total);
        const bar = add(svg, "rect", { class: `bar c${group % 6}`, x: from, y, width: Math.max(0.5, to - from - 0.5), height: bottom - y });
        add(bar, "title", {}, `${histogram.name ? `${histogram.name}, ` : ""}${show(data.edges[index], data.unit)} to ${show(data.edges[index + 1], data.unit)}: ${count} (${show(count / total, "ratio")})`);
      });
    }

    /* Percentiles with their intervals; whether an interval is shaded. */
    drawMarks(svg, x, top, bottom, width, right) {
      const { data } = this, isOverlaid = data.histograms.length > 1;
      let hasShading = false;
      const free = [-99, -99, -99];  // right end of the last name in each row
      for (const mark of [...data.marks].sort((a, b) => a.value - b.value)) {
        const isOutside = mark.value > x.high, at = isOutside ? width : x(mark.value);
        const isShaded = mark.low !== null && mark.low < x.high;
        hasShading = hasShading || isShaded;
        if (isShaded) add(svg, "rect", { class: "interval", x: x(Math.max(x.low, mark.low)), y: top, width: Math.max(1, x(Math.min(x.high, mark.high)) - x(Math.max(x.low, mark.low))), height: bottom - top });
        if (!isOutside) add(svg, "path", { class: `mark${isOverlaid ? ` c${mark.group % 6}` : ""}`, d: `M${at} ${top - 4}V${bottom}` });
        const text = `${mark.name} ${show(mark.value, data.unit)}${isOutside ? " →" : ""}`, half = 3.4 * text.length;
        const place = Math.min(width - right - half, Math.max(LEFT + half, at));
        const row = Math.max(0, free.findIndex((end) => end < place - half));
        free[row] = place + half;
        add(svg, "text", { class: "axis", x: place, y: 14 + 16 * row, "text-anchor": "middle" }, text);
      }
      return hasShading;
    }
  }

  class FrontChart {
    constructor(figure, data) {
      this.figure = figure;
      this.data = data;
    }

    draw() {
      const { figure, data } = this, width = figure.clientWidth, height = 340, top = 24, bottom = height - 34;
      if (!width) return;
      figure.replaceChildren();
      const span = (values) => {
        const isLog = Math.min(...values) > 0;
        return [...padded(Math.min(...values), Math.max(...values), isLog), isLog];
      };
      const [left, right, isLogX] = span(data.dots.map((cell) => cell.x));
      const [low, high, isLogY] = span(data.dots.map((cell) => cell.y));
      const x = scaleOf(left, right, LEFT, width - RIGHT, isLogX), y = scaleOf(low, high, bottom, top, isLogY);
      const best = data.dots.filter((cell) => cell.is_best).sort((a, b) => a.x - b.x);
      const joined = best.filter((cell) => cell.is_joined);
      const svg = newSvg(figure, width, height, `${data.x_title} against ${data.y_title}`, `${data.dots.length} cells, Pareto front: ${best.map((cell) => cell.name).join("; ")}`);
      axisX(svg, x, data.x_unit, top, bottom);
      axisY(svg, y, data.y_unit, width);
      add(svg, "text", { class: "title", x: LEFT, y: 14 }, data.y_title);
      add(svg, "text", { class: "title", x: width - RIGHT, y: height - 4, "text-anchor": "end" }, data.x_title);
      add(svg, "path", { class: "front", d: joined.length ? `M${joined.map((cell) => `${x(cell.x)} ${y(cell.y)}`).join("L")}` : "" });
      const shapes = ["M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z", "M-5 -5H5V5H-5Z", "M0 -6L6 5H-6Z", "M0 -7L6 0L0 7L-6 0Z"];
      const names = [];  // places of the names of dots
      for (const cell of [...data.dots].sort((a, b) => y(a.y) - y(b.y))) {
        const at = [x(cell.x), y(cell.y)];
        const dot = add(svg, "path", { class: `dot c${cell.group % 6}${cell.is_best ? " best" : ""}`, d: shapes[cell.group % 4], transform: `translate(${at})` });
        const accuracy = cell.accuracy && `, ${data.accuracy_title} ${cell.accuracy}`;
        add(dot, "title", {}, `${cell.name}: ${show(cell.x, data.x_unit)}, ${show(cell.y, data.y_unit)}${accuracy}`);
        if (cell.is_best && best.length <= 8) {
          const isRight = at[0] > width * 0.6;
          // A name goes above its dot, or below where another dot's name is.
          const isTaken = (y) => names.some((other) => Math.abs(other[0] - at[0]) < 220 && Math.abs(other[1] - y) < 13);
          const place = [at[1] - 7, at[1] + 15, at[1] + 28].find((y) => !isTaken(y));
          if (place === undefined) continue;
          names.push([at[0], place]);
          const device = `${data.groups[cell.group]}: `, isOnly = data.groups.length === 1;
          const text = (isOnly && cell.name.startsWith(device) ? cell.name.slice(device.length) : cell.name).split(", ").slice(0, 2).join(", ") + accuracy;
          add(svg, "text", { class: `key halo c${cell.group % 6}`, x: at[0] + (isRight ? -9 : 9), y: place, "text-anchor": isRight ? "end" : "start" }, text);
        }
      }
      const better = data.is_y_lower_better ? "lower left" : "upper left";
      const third = data.accuracy_title ? ` and accuracy (${data.accuracy_title})` : "";
      const apart = best.length > joined.length ? " Filled and off the line: on the front because of its accuracy." : "";
      const keys = addHtml(figure, "p", "note", `Better is ${better}. Filled: Pareto front of these two metrics${third}. Line: Pareto front of these two metrics only.${apart} `);
      data.groups.forEach((name, group) => addHtml(keys, "span", `key c${group % 6}`, `${"●■▲◆"[group % 4]} ${name} `));
    }
  }

  /* Evenly spaced points in order of time, so that a burst of runs is also legible. */
  class HistoryChart {
    constructor(figure, data) {
      this.figure = figure;
      this.data = data;
    }

    draw() {
      const { figure, data } = this, width = figure.clientWidth, height = 260, top = 40, bottom = height - 34;
      if (!width) return;
      figure.replaceChildren();
      const { points, levels } = data, count = points.length;
      const x = scaleOf(-0.5, count - 0.5, LEFT, width - RIGHT, false);
      const y = scaleOf(...this.range(), bottom, top, false);
      const svg = newSvg(figure, width, height, `${data.title} over time`, `${count} points in ${levels.length} level${levels.length > 1 ? "s" : ""}, from ${points[0].date} to ${points[count - 1].date}`);
      axisY(svg, y, data.unit, width);
      add(svg, "text", { class: "title", x: LEFT, y: 14 }, data.title);
      this.drawDates(svg, x, bottom, width);
      for (const [number, level] of levels.entries()) {
        const [from, to] = [x(level.first - 0.5), x(level.first + level.count - 0.5)];
        add(svg, "path", { class: "level", d: `M${from} ${y(level.value)}H${to}` });
        if (!number) continue;
        add(svg, "path", { class: "mark", d: `M${from} ${top - 8}V${bottom}` });
        const isRight = from > width * 0.7;
        add(svg, "text", { class: "axis value", x: from + (isRight ? -5 : 5), y: top - 14 + 12 * (number % 2), "text-anchor": isRight ? "end" : "start" }, level.text);
      }
      points.forEach((point, index) => {
        const [at, middle] = [x(index), y(point.value)];
        const group = add(svg, "g", { class: `point${point.is_suspect ? " suspect" : ""}${point.is_shown ? " shown" : ""}` });
        if (point.low !== null) add(group, "path", { class: "whisker", d: `M${at} ${y(Math.max(y.low, point.low))}V${y(Math.min(y.high, point.high))}` });
        if (point.is_shown) add(group, "circle", { class: "ring", cx: at, cy: middle, r: 8 });
        add(group, "circle", { class: "dot", cx: at, cy: middle, r: count > width / 8 ? 2 : 4 });
        if (point.changed) add(group, "path", { class: "changed", d: `M${at} ${bottom - 9}l4 4l-4 4l-4 -4Z` });
        add(group, "title", {}, `${point.date}, ${point.name}: ${show(point.value, data.unit)}${point.low === null ? "" : ` (${show(point.low, data.unit)} to ${show(point.high, data.unit)})`}${point.is_suspect ? ", suspect" : ""}${point.changed ? `; changed: ${point.changed}` : ""}`);
      });
      const marks = [
        ["● valid", points.some((point) => !point.is_suspect)], ["○ suspect", points.some((point) => point.is_suspect)],
        ["◎ on this page", points.some((point) => point.is_shown)], ["│ 95 % interval between runs", points.some((point) => point.low !== null)],
        ["━ level", true], ["┆ new level", levels.length > 1], ["◆ other conditions", points.some((point) => point.changed)],
      ];
      addHtml(figure, "figcaption", "note", `${marks.filter(([, isThere]) => isThere).map(([mark]) => mark).join("  ")}. Points are in order of time, evenly spaced. The axis does not start at zero.`);
    }

    range() {
      const values = this.data.points.map((point) => point.value);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const room = (high - low) / 2 || 0.005 * Math.abs(high) || 1;
      const ends = this.data.points.flatMap((point) => point.low === null ? [point.value] : [point.low, point.high]);
      return padded(Math.max(low - room, Math.min(...ends)), Math.min(high + room, Math.max(...ends)), false);
    }

    /* As many dates as fit; times of day if all points are from the same day. */
    drawDates(svg, x, bottom, width) {
      const { points } = this.data, isOneDay = points[0].date.slice(0, 10) === points[points.length - 1].date.slice(0, 10);
      const step = Math.ceil(points.length / Math.max(1, Math.floor((width - LEFT - RIGHT) / 84)));
      for (let index = 0; index < points.length; index += step) {
        const date = points[index].date;
        add(svg, "text", { class: "axis", x: x(index), y: bottom + 16, "text-anchor": "middle" }, isOneDay ? date.slice(11) : date.slice(0, 10));
      }
      if (isOneDay) add(svg, "text", { class: "axis", x: width - RIGHT, y: bottom + 30, "text-anchor": "end" }, `${points[0].date.slice(0, 10)}, UTC`);
    }
  }

  /* A table that is wider than its place scrolls, and is reached with the keyboard. */
  const scrolled = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0; else target.removeAttribute("tabindex");
  }));
  for (const wide of document.querySelectorAll(".wide")) scrolled.observe(wide);

  const KINDS = { history: HistoryChart, time: TimeChart, distribution: DistributionChart, front: FrontChart };
  const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    const chart = charts.find((drawn) => drawn.figure === target);
    if (chart.width !== target.clientWidth) { chart.width = target.clientWidth; chart.draw(); }
  }));
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const data = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
    const chart = new KINDS[data.kind](figure, data);
    charts.push(chart);
    resized.observe(figure);
  }

  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
  });
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) { details.open = true; details.dataset.closed = ""; }
    charts.forEach((chart) => chart.draw());
  });
  addEventListener("afterprint", () => {
    for (const details of document.querySelectorAll("details[data-closed]")) { details.open = false; delete details.dataset.closed; }
  });
})();
