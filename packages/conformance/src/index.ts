export * from './transport-suite.ts'
