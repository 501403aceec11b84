/** What comparisons and selections have beside the style of all reports. */
export const css = `
:root{--arm-a:#0860ba;--arm-b:#b8460a;--arm-same:#5d646c;--good:#0b6b45;--bad:#a8201a;--least:#0b62a81f}
@media (prefers-color-scheme:dark){:root{--arm-a:#6fa8ec;--arm-b:#f08a4b;--arm-same:#a6adb6;--good:#4fd1a0;--bad:#ff8f86;--least:#7cbcf226}}
.badge{font:600 12px/1.3 var(--mono);letter-spacing:.03em;white-space:nowrap}
.good{color:var(--good)}.bad{color:var(--bad)}.open{color:var(--soft)}
.hash{font:12.5px/1.5 var(--mono)}
td.bars{min-width:190px;width:24%;vertical-align:middle}td .sub{font-size:12.5px}td.metric{min-width:118px}.wrap+h3{margin-top:22px}.keys dd .hash{font-size:20px}td.said{min-width:150px}td.long{overflow-wrap:anywhere;min-width:120px}td.bars svg{width:100%;height:30px}
.scale{position:relative;height:16px;font-size:11.5px;color:var(--soft);font-weight:400}
.scale span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.scale span:first-child{transform:none}.scale span:last-child{transform:translateX(-100%)}
.plot{display:grid;grid-template-columns:88px minmax(0,1fr);gap:4px 8px}
.plot.pair{grid-template-columns:58px minmax(0,var(--first,1fr)) minmax(0,var(--second,1fr))}
.plot svg{width:100%;height:210px;background:var(--track);border-radius:4px}
.plot .y{position:relative;font-size:11.5px;color:var(--soft)}
.plot .y span{position:absolute;right:0;transform:translateY(-50%);white-space:nowrap}
.plot .under{grid-row:2;font-size:11.5px;color:var(--soft)}
.dots{width:100%;height:30px}
.mark-a{fill:var(--arm-a);stroke:var(--arm-a)}.mark-b{fill:var(--arm-b);stroke:var(--arm-b)}
.mark-a1,.mark-a2,.mark-aa{fill:var(--card);stroke:var(--arm-same);stroke-width:1.6px}.mark-a2{fill:var(--arm-same)}
.mark-1{fill:var(--arm-a);stroke:var(--arm-a)}.mark-2{fill:var(--arm-b);stroke:var(--arm-b)}
.mark-3{fill:var(--card);stroke:var(--arm-a);stroke-width:1.6px}.mark-4{fill:var(--card);stroke:var(--arm-b);stroke-width:1.6px}
.sign{display:inline-block;width:16px;height:11px;vertical-align:-1px;margin-right:5px}
.two h3{margin-bottom:8px}
@media (min-width:561px){#verdict .keys{grid-template-columns:repeat(auto-fit,minmax(230px,1fr))}tr td.metric{min-width:180px}}
@media (max-width:560px){.plot.pair{grid-template-columns:52px minmax(0,var(--first,1fr)) minmax(0,var(--second,1fr));gap:4px 5px}td.bars{min-width:150px}}
`
