// Values under the pointer, curves that can be hidden, and a hint at tables that scroll.  The page is
// complete without it: then the browser itself shows the <title> of a point.
(function() {
'use strict';
const REACH = 40; // how far from a point the pointer may be, in units of the plot
const SAME  = 4;  // points nearer in x than this are at the same x
const NS    = 'http://www.w3.org/2000/svg';

function element(tag, name, parent)
{
    const e     = document.createElement(tag);
    e.className = name;
    if (parent) parent.append(e);
    return e;
}

const tip    = element('div', 'tip', document.body);
const where  = element('div', 'x', tip);
const rows   = element('table', '', tip);
const detail = element('div', 'detail', tip);
tip.hidden   = true;
tip.setAttribute('role', 'status');
let shown = null; // the plot that the tip belongs to

function hide()
{
    tip.hidden = true;
    if (shown) shown.marks.setAttribute('visibility', 'hidden');
    shown = null;
}

function visible(plot) { return plot.points.filter((p) => !p.group.classList.contains('off')); }

// Of every curve the point at the x of this one, from the highest to the lowest.
function beside(plot, point)
{
    const nearest = new Map();
    for (const p of visible(plot)) {
        const far  = Math.abs(p.x - point.x);
        const best = nearest.get(p.group);
        if (far < SAME && (!best || far < Math.abs(best.x - point.x))) nearest.set(p.group, p);
    }
    nearest.set(point.group, point);
    return [...nearest.values()].sort((a, b) => a.y - b.y);
}

// The curves at this x, one below the other, and the words of the point itself where they say more.
function fill(plot, point)
{
    const all   = beside(plot, point);
    const named = plot.svg.dataset.x;
    const at    = (p) => (named ? named + ' ' : '') + p.at;
    rows.replaceChildren();
    for (const p of all.length > 1 ? all : []) {
        const row    = element('tr', p === point ? 'now' : '', rows);
        const label  = element('td', '', row);
        const colour = element('i', '', label);
        colour.style.backgroundColor = p.colour;
        label.append(p.label);
        element('td', '', row).textContent =
            p.value + (p.at === point.at ? '' : ' (at ' + p.at + ')');
    }
    where.textContent = at(point);
    where.hidden = rows.hidden = all.length < 2;
    detail.textContent         = point.text;
    detail.hidden = all.length > 1 && point.text === `${point.label}: ${at(point)}, ${point.value}`;
    tip.style.borderLeftColor = point.colour;
}

function show(plot, point)
{
    if (shown && shown !== plot) hide();
    shown        = plot;
    plot.current = point;
    plot.ring.setAttribute('cx', point.x);
    plot.ring.setAttribute('cy', point.y);
    plot.guide.setAttribute('x1', point.x);
    plot.guide.setAttribute('x2', point.x);
    plot.marks.setAttribute('visibility', 'visible');
    fill(plot, point);
    tip.hidden     = false;
    const at       = new DOMPoint(point.x, point.y).matrixTransform(plot.svg.getScreenCTM());
    const wide     = document.documentElement.clientWidth;
    const high     = document.documentElement.clientHeight;
    const box      = tip.getBoundingClientRect();
    const left     = at.x + 14 + box.width < wide ? at.x + 14 : at.x - 14 - box.width;
    const top      = at.y - box.height - 12 > 4 ? at.y - box.height - 12 : at.y + 16;
    tip.style.left = Math.max(4, Math.min(left, wide - box.width - 4)) + 'px';
    tip.style.top  = Math.max(4, Math.min(top, high - box.height - 4)) + 'px';
}

// The point next to the pointer; where there is none, the next one to its left or right.
function nearest(plot, x, y)
{
    const [left, top, right, bottom] = plot.box;
    const inside = x > left - 5 && x < right + 5 && y > top - 5 && y < bottom + 5;
    let   best   = null;
    let   least  = Infinity;
    for (const p of visible(plot)) {
        const near = Math.hypot(p.x - x, p.y - y);
        const d    = near < REACH ? near : REACH + Math.abs(p.x - x) + Math.abs(p.y - y) / 1000;
        if (d < least && (near < REACH || (inside && Math.abs(p.x - x) < REACH))) {
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

for (const svg of document.querySelectorAll('.panel > svg')) {
    const plot = {
        svg,
        points : [],
        current : null,
        box : svg.dataset.box.split(' ').map(Number),
        marks : document.createElementNS(NS, 'g'),
        guide : document.createElementNS(NS, 'line'),
        ring : document.createElementNS(NS, 'circle'),
    };
    for (const circle of svg.querySelectorAll('.points circle')) {
        const words        = circle.querySelector('title'); // would show a second tip
        circle.dataset.tip = words.textContent;
        words.remove();
        plot.points.push({
            x : circle.cx.baseVal.value,
            y : circle.cy.baseVal.value,
            text : circle.dataset.tip,
            at : circle.dataset.x,
            value : circle.dataset.y,
            group : circle.parentNode,
            label : circle.parentNode.dataset.label,
            colour : circle.parentNode.dataset.colour,
        });
    }
    plot.guide.setAttribute('class', 'guide');
    plot.guide.setAttribute('y1', plot.box[1]);
    plot.guide.setAttribute('y2', plot.box[3]);
    plot.ring.setAttribute('class', 'here');
    plot.ring.setAttribute('r', 7);
    plot.marks.setAttribute('visibility', 'hidden');
    plot.marks.append(plot.guide, plot.ring);
    svg.append(plot.marks);
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
    if (!event.target.closest('.panel > svg')) hide();
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

// Tables that are wider than their box: a word, until their end has been seen.
for (const box of document.querySelectorAll('.wide')) {
    const hint       = document.createElement('p');
    hint.className   = 'hint';
    hint.textContent = 'Wider than the screen: scroll sideways →';
    hint.hidden      = true;
    box.before(hint);
    const look = () => {
        const more = box.scrollWidth > box.clientWidth + 1;
        hint.hidden = !more || box.scrollLeft + box.clientWidth > box.scrollWidth - 2;
        if (more)
            box.tabIndex = 0; // to be scrolled by the keyboard
        else
            box.removeAttribute('tabindex');
    };
    box.addEventListener('scroll', look, { passive: true });
    new ResizeObserver(look).observe(box);
    look();
}
}());
