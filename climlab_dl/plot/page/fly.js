// Moves the map to the storm whose row was picked; the tag is the track that the map knows, so that it stays where a
// storm was clicked on the map itself, and when time goes on.
const [row] = here.selected.indices, track = row == null ? null : here.data.track[row];
if (track === (here.tags[0] ?? null)) return;
here.tags = track == null ? [] : [track];
if (track == null) return;
figure.x_range.setv({start: here.data.x[row] - reach, end: here.data.x[row] + reach});
figure.y_range.setv({start: here.data.y[row] - tall, end: here.data.y[row] + tall});
