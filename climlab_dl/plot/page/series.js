// Draws the series at the cell that was asked for, points in the colours of their classes; a kernel reads it if `live`.
const [cell] = asked.data.cell;
panel.visible = cell != null;
if (cell == null) return;
const name = channel.value;
panel.title.text = `${styles[name].label} at ${place(cell)}`;
now.location = days[slider.value];
if (live) return;
const drawn = {day: [], value: [], color: []};
for (let t = 0; t < days.length; t++) {
  if (missing[t] > 0) {
    // A line without a number is broken there.
    for (const [key, nothing] of Object.entries({day: days[t], value: NaN, color: colors[0]})) drawn[key].push(nothing);
  }
  drawn.day.push(days[t]);
  drawn.value.push(valueOf(name, cell, t));
  drawn.color.push(colors[frames.data.mask?.[t * count + cell]] ?? colors[0]);
}
series.data = drawn;
