// What the scripts share: the snapshot's position in `frames`, a place written as the axes write it, a channel's value
// there, and the storm there.
const t = live ? 0 : slider.value;
const degrees = (value, [negative, positive], decimals) => {
  const size = Math.abs(value).toFixed(decimals);
  return `${size}°${+size === 0 || +size === 180 ? '' : value < 0 ? negative : positive}`;
};
const inDegrees = (north, east, decimals) =>
  `${degrees(north, 'SN', decimals)} ${degrees((east % 360 + 540) % 360 - 180, 'WE', decimals)}`;
const place = cell => inDegrees(lat[Math.floor(cell / lon.length)], lon[cell % lon.length], 2);
const valueOf = (name, cell, t) => {
  const number = frames.data[name][t * count + cell];
  return number === -32768 ? NaN : frames.data[name + ' offset'][t] + frames.data[name + ' scale'][t] * number;
};
// Row of the storm whose region a cell lies in, -1 if none: of storms that share a region, the closest.
const stormAt = cell => {
  const number = frames.data.region?.[t * count + cell] ?? 0;
  let row = -1, closest = Infinity;
  for (let k = 0; number > 0 && k < storms.here.data.region.length; k++) {
    if (storms.here.data.region[k] !== number) continue;
    const north = storms.here.data.lat[k] - lat[Math.floor(cell / lon.length)];
    const east = ((storms.here.data.lon[k] - lon[cell % lon.length]) % 360 + 540) % 360 - 180;
    const away = Math.hypot(north, east * Math.cos(storms.here.data.lat[k] * Math.PI / 180));
    if (away < closest) [row, closest] = [k, away];
  }
  return row;
};
