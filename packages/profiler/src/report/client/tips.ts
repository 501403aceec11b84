/** Tooltips: by pointer on anything with `data-tip`, by arrow keys inside anything with `data-tips`. */
export {}

const tip = document.getElementById('tip')!
let marked: Element | null = null

function show(element: Element, text: string): void {
  hide()
  marked = element
  element.classList.add('on')
  tip.textContent = text
  tip.hidden = false
  const box = element.getBoundingClientRect()
  const own = tip.getBoundingClientRect()
  const left = Math.max(8, Math.min(innerWidth - own.width - 8, box.left + box.width / 2 - own.width / 2))
  const above = box.top - own.height - 8
  tip.style.left = `${left}px`
  tip.style.top = `${above > 4 ? above : Math.min(innerHeight - own.height - 4, box.bottom + 8)}px`
}

function hide(): void {
  marked?.classList.remove('on')
  marked = null
  tip.hidden = true
}

document.addEventListener('pointerover', (event) => {
  const element = event.target instanceof Element ? event.target.closest('[data-tip]') : null
  if (element !== null) show(element, element.getAttribute('data-tip')!)
  else if (marked !== null) hide()
})
addEventListener('scroll', hide, { passive: true, capture: true })

for (const chart of document.querySelectorAll<HTMLElement>('[data-tips]')) {
  // Segments stand in rows; stepping goes along time.
  const items = [...chart.querySelectorAll('[data-tip]')].sort(
    (a, b) => Number(a.getAttribute('data-at') ?? 0) - Number(b.getAttribute('data-at') ?? 0),
  )
  let at = -1
  chart.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
    if (event.key === 'Escape') hide()
    else if (event.key === 'Home') at = 0
    else if (event.key === 'End') at = items.length - 1
    else if (step !== undefined) at = Math.max(0, Math.min(items.length - 1, at + step))
    else return
    event.preventDefault()
    const item = items[at]
    if (event.key !== 'Escape' && item !== undefined) show(item, item.getAttribute('data-tip')!)
  })
  chart.addEventListener('blur', hide)
}
