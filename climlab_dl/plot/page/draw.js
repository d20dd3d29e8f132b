// Draws the snapshot, channel and layers that the widgets name. `frames` holds every snapshot that is in the page, or
// only the one that was asked for where a kernel answers (`live`); `image` holds one number a pixel of the map.
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
bar.title = style.scale;

const {mask, truth} = frames.data;
const shown = new Set(toggles.active.map(button => kinds[button]));
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

for (const [number, {name, pieces, drawn}] of lines.entries()) {
  const fresh = {x0: [], y0: [], x1: [], y1: [], color: []};
  for (let s = pieces.tags[t]; over.active.includes(number) && s < pieces.tags[t + 1]; s++) {
    const kind = pieces.data.classes[s];
    if (kind > 0 && !shown.has(kind)) continue;
    for (const side of ['x0', 'y0', 'x1', 'y1']) fresh[side].push(pieces.data[side][s]);
    fresh.color.push(colors[kind]);
  }
  drawn.data = fresh;
}

if (storms != null) {
  // The rows of this time; a storm that was picked stays picked as long as it lives, and the map stays where it is.
  const all = storms.rows.data, keep = [];
  const track = storms.here.data.track, picked = storms.here.selected.indices.map(row => track[row]);
  for (let row = 0; row < all.step.length; row++) if (all.step[row] === slider.value) keep.push(row);
  const fresh = {};
  for (const name of Object.keys(all)) fresh[name] = keep.map(row => all[name][row]);
  const again = keep.flatMap((row, place) => picked.includes(all.track[row]) ? [place] : []);
  storms.here.selected.indices = [];
  storms.here.data = fresh;
  // By itself the table draws other rows only if there are more or fewer of them.
  storms.table.view.change.emit();
  storms.here.selected.indices = again;
}
