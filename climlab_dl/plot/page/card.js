// Shows the card of the storm that is picked: how long it was seen, and its measures now.
const {rows, here} = storms, [row] = here.selected.indices;
card.visible = row != null;
if (row == null) return;
const track = here.data.track[row], seen = rows.data.date.filter((_, k) => rows.data.track[k] === track);
const lines = [`<b>${here.data.class[row]}, track ${track}</b>, event ${here.data.event[row]}`];
lines.push(`seen ${seen.length === 1 ? `once, ${seen[0]}` : `${seen.length} times, ${seen[0]} to ${seen.at(-1)}`}`);
lines.push(inDegrees(here.data.lat[row], here.data.lon[row], 1));
for (const [name, heading, decimals] of measures) {
  const value = here.data[name][row];
  if (value === value) lines.push(`${heading}: ${value.toFixed(decimals)}`);
}
card.text = lines.join('<br>');
