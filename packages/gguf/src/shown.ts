const MAX_SHOWN_CHARACTERS = 80

/**
 * A text from a file as it stands in an error message: at most 80 characters of it and then `…`; quotes, backslashes, control
 * and other invisible characters escaped as in JSON, so that nothing in it reaches a terminal as a command.
 */
export function shown(text: string): string {
  if (text.length <= MAX_SHOWN_CHARACTERS) return escaped(text)
  // Not between the halves of a surrogate pair.
  return `${escaped(text.slice(0, MAX_SHOWN_CHARACTERS).replace(/[\ud800-\udbff]$/, ''))}…`
}

function escaped(text: string): string {
  return text.replace(/["\\\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (found) => {
    const json = JSON.stringify(found).slice(1, -1)
    return json === found ? found.split('').map(hex).join('') : json
  })
}

function hex(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
