import { describe, expect, it } from 'vitest'
import { type CpuProfile, selfTimes } from '../src/cpu-profile.ts'

const node = (id: number, functionName: string, url = '', lineNumber = -1) => ({
  id,
  callFrame: { functionName, scriptId: '0', url, lineNumber, columnNumber: 0 },
})

describe('self times', () => {
  it('count a sample until the next, and the last until the end, over all places where a function is called', () => {
    const profile: CpuProfile = {
      nodes: [
        node(1, '(root)'),
        node(2, 'work', 'file:///a.js', 9),
        node(3, 'work', 'file:///a.js', 9),
        node(4, '', 'file:///b.js', 0),
        node(5, 'wasm-function[3]', 'wasm://wasm/1', 0),
      ],
      startTime: 1000,
      endTime: 2000,
      samples: [2, 4, 3, 5],
      // At 1100, 1300, 1400 and 1900.
      timeDeltas: [100, 200, 100, 500],
    }
    expect(selfTimes(profile)).toEqual([
      { name: 'work', url: 'file:///a.js', line: 10, selfMs: 0.7, share: 7 / 9 },
      { name: '(anonymous)', url: 'file:///b.js', line: 1, selfMs: 0.1, share: 1 / 9 },
      { name: 'wasm-function[3]', url: 'wasm://wasm/1', line: 0, selfMs: 0.1, share: 1 / 9 },
    ])
  })

  it('of a profile without samples are none', () => {
    expect(selfTimes({ nodes: [node(1, '(root)')], startTime: 0, endTime: 1 })).toEqual([])
  })
})
