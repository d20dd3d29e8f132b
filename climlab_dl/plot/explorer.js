// Draws the snapshot, channel and layers that the widgets name. `frames` holds every snapshot that is in the page, or
// only the one that was asked for where a kernel answers (`live`); `image` holds one number a pixel of the map.
const t = live ? 0 : slider.value;
const style = styles[channel.value];
const cells = image.data.cell[0];

const numbers = frames.data[channel.value];
const offset = frames.data[channel.value + ' offset'][t];
const scale = frames.data[channel.value + ' scale'][t];
const value = image.data.value[0];
for (let p = 0; p < cells.length; p++) {
  const number = cells[p] < 0 ? -32768 : numbers[t * count + cells[p]];
  value[p] = number === -32768 ? NaN : offset + scale * number;
}
mapper.palette = style.palette;
mapper.low = style.low;
mapper.high = style.high;
bar.title = style.label;

const {mask, truth} = frames.data;
const shown = new Set(toggles.active.map(button => button + 1));
const compare = view.active === 1;
const layer = image.data.layer[0];
for (let p = 0; p < cells.length; p++) {
  layer[p] = 0;
  if (mask == null || cells[p] < 0) continue;
  const found = mask[t * count + cells[p]];
  if (!compare) {
    if (shown.has(found)) layer[p] = found;
    continue;
  }
  const real = truth[t * count + cells[p]];
  if (found === unknown || real === unknown || !shown.has(real > 0 ? real : found)) continue;
  // Numbered after the classes: hit, miss, false alarm.
  layer[p] = classes.length + (found === real ? 0 : real > 0 ? 1 : 2);
}
overlay.global_alpha = opacity.value;
image.change.emit();

const drawn = {x0: [], y0: [], x1: [], y1: [], color: []};
const first = pieces.tags;
for (let s = first[t]; s < first[t + 1] && !compare; s++) {
  const kind = pieces.data.classes[s];
  if (!shown.has(kind)) continue;
  for (const side of ['x0', 'y0', 'x1', 'y1']) drawn[side].push(pieces.data[side][s]);
  drawn.color.push(colors[kind]);
}
border.data = drawn;
