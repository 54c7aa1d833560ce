// Values under the pointer, and curves that can be hidden.  The page is complete without it: then
// the browser itself shows the <title> of a point.
(function() {
'use strict';
const REACH = 40; // how far from a point the pointer may be, in units of the plot
const NS    = 'http://www.w3.org/2000/svg';

const tip     = document.createElement('div');
tip.className = 'tip';
tip.hidden    = true;
tip.setAttribute('role', 'status');
document.body.append(tip);
let shown = null; // the plot that the tip belongs to

function hide()
{
    tip.hidden = true;
    if (shown) shown.ring.setAttribute('visibility', 'hidden');
    shown = null;
}

function show(plot, point)
{
    if (shown && shown !== plot) hide();
    shown        = plot;
    plot.current = point;
    plot.ring.setAttribute('cx', point.x);
    plot.ring.setAttribute('cy', point.y);
    plot.ring.setAttribute('visibility', 'visible');
    tip.textContent           = point.text;
    tip.style.borderLeftColor = point.colour;
    tip.hidden                = false;
    const at       = new DOMPoint(point.x, point.y).matrixTransform(plot.svg.getScreenCTM());
    const wide     = document.documentElement.clientWidth;
    const box      = tip.getBoundingClientRect();
    const left     = at.x + 14 + box.width < wide ? at.x + 14 : at.x - 14 - box.width;
    const top      = at.y - box.height - 12;
    tip.style.left = Math.max(4, Math.min(left, wide - box.width - 4)) + 'px';
    tip.style.top  = (top > 4 ? top : at.y + 16) + 'px';
}

function visible(plot) { return plot.points.filter((p) => !p.group.classList.contains('off')); }

function nearest(plot, x, y)
{
    let best  = null;
    let least = REACH * REACH;
    for (const p of visible(plot)) {
        const d = (p.x - x) * (p.x - x) + (p.y - y) * (p.y - y);
        if (d < least) {
            least = d;
            best  = p;
        }
    }
    return best;
}

function follow(plot, event)
{
    const at = new DOMPoint(event.clientX, event.clientY)
                   .matrixTransform(plot.svg.getScreenCTM().inverse());
    const point = nearest(plot, at.x, at.y);
    if (point)
        show(plot, point);
    else
        hide();
}

// Left and right along a curve, up and down to the next one at about the same x.
function walk(plot, key)
{
    const all = visible(plot);
    let   at  = plot.current;
    if (all.length === 0) return;
    if (!all.includes(at)) at = all[0];
    const same   = all.filter((p) => p.group === at.group);
    const groups = [...new Set(all.map((p) => p.group)) ];
    const step   = key === 'ArrowRight' || key === 'ArrowDown' ? 1 : -1;
    if (key === 'ArrowLeft' || key === 'ArrowRight') {
        at = same[Math.max(0, Math.min(same.length - 1, same.indexOf(at) + step))];
    } else if (key === 'ArrowUp' || key === 'ArrowDown') {
        const to = groups[(groups.indexOf(at.group) + step + groups.length) % groups.length];
        const x  = at.x;
        at       = all.filter((p) => p.group === to)
                 .reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));
    }
    show(plot, at);
}

for (const svg of document.querySelectorAll('.panel svg')) {
    const
        plot = { svg, points : [], current : null, ring : document.createElementNS(NS, 'circle') };
    for (const circle of svg.querySelectorAll('.points circle')) {
        const words        = circle.querySelector('title'); // would show a second tip
        circle.dataset.tip = words.textContent;
        words.remove();
        plot.points.push({
            x : circle.cx.baseVal.value,
            y : circle.cy.baseVal.value,
            text : circle.dataset.tip,
            group : circle.parentNode,
            colour : circle.parentNode.dataset.colour,
        });
    }
    plot.ring.setAttribute('class', 'here');
    plot.ring.setAttribute('r', 7);
    plot.ring.setAttribute('visibility', 'hidden');
    svg.append(plot.ring);
    svg.tabIndex = 0;
    svg.addEventListener('pointermove', (event) => follow(plot, event));
    svg.addEventListener('pointerdown', (event) => follow(plot, event));
    svg.addEventListener('pointerleave', (event) => {
        if (event.pointerType === 'mouse') hide();
    });
    svg.addEventListener('focus', () => {
        if (svg.matches(':focus-visible')) walk(plot, '');
    });
    svg.addEventListener('blur', hide);
    svg.addEventListener('keydown', (event) => {
        if (!event.key.startsWith('Arrow')) return;
        event.preventDefault();
        walk(plot, event.key);
    });
}

document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') hide();
});
document.addEventListener('scroll', () => {
    if (shown) show(shown, shown.current); // the words stay at their point
}, { passive: true });
document.addEventListener('pointerdown', (event) => {
    if (!event.target.closest('.panel svg')) hide();
});

for (const key of document.querySelectorAll('.legend .key')) {
    const button     = document.createElement('button');
    button.type      = 'button';
    button.className = 'key';
    button.append(...key.childNodes);
    button.setAttribute('aria-pressed', 'true');
    key.className = '';
    key.append(button);
    button.addEventListener('click', () => {
        const on = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(on));
        for (const part of key.closest('figure').querySelectorAll('.panel [data-label]')) {
            if (part.dataset.label === key.dataset.label) part.classList.toggle('off', !on);
        }
        hide();
    });
}
}());
