import { codecSuite } from '@seamline/conformance'
import { describe, it } from 'vitest'
import { f32Planes } from './index.js'

codecSuite({ describe, it, codec: f32Planes })
