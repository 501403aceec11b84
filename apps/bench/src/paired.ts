export { type PairedEstimate, pairedEstimate } from './statistics/index.ts'
