/** The report's style: system fonts, one colour for each group of categories (kept apart for every kind of colour vision: test/colors.test.ts), light, dark and print. */
export const css = `
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#16191d;--soft:#565d66;--line:#e2e4e7;--grid:#ecedef;--accent:#0b62a8;
--warn-bg:#fff4dc;--warn-ink:#6b4700;--track:#f1f2f4;--hatch:#16191d;
--compute:#0860ba;--convert:#08a270;--frame:#b75597;--send:#dda713;--wire:#c34c06;--relay:#f3ec22;--wait:#9adbe8;--runtime:#3b3c41;--unattributed:#9aa0a6;
--mono:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media (prefers-color-scheme:dark){:root{--bg:#121417;--card:#1a1d21;--ink:#eceef0;--soft:#a6adb6;--line:#30353b;--grid:#262a2f;--accent:#7cbcf2;
--warn-bg:#3a2c0a;--warn-ink:#ffdf9a;--track:#23272c;--hatch:#eceef0;
--compute:#4488d9;--convert:#30d098;--frame:#d37dae;--send:#f8bc16;--wire:#ec7230;--relay:#fdf684;--wait:#add4fa;--runtime:#745848;--unattributed:#7d858e}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
td,th{overflow-wrap:normal}
main,header,footer,nav{max-width:1360px;margin:0 auto;padding:0 clamp(14px,3vw,36px)}
header{padding-top:30px}
h1{font-size:clamp(22px,3vw,30px);line-height:1.2;letter-spacing:-.015em;margin:0;overflow-wrap:anywhere}
h2{font-size:19px;letter-spacing:-.01em;margin:0 0 2px}
h3{font-size:15px;margin:0}
p{margin:0}
.sub,.note,figcaption,.lead{color:var(--soft)}
.sub{margin-top:6px;overflow-wrap:anywhere}
.lead{max-width:76ch;margin-bottom:14px}
.note{font-size:13px;margin-top:10px;max-width:90ch}
nav{padding-top:14px;padding-bottom:14px;display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13.5px}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:clamp(14px,2vw,24px);margin:0 0 18px;min-width:0}
.mark{background:var(--warn-bg);color:var(--warn-ink);border-radius:8px;padding:9px 14px;margin-top:12px;font-weight:600}
.verdict{display:grid;gap:20px;margin-top:12px}
.verdict .kind{font:600 12.5px/1.3 var(--mono);letter-spacing:.04em;color:var(--accent)}
.verdict .say{font-size:clamp(17px,1.7vw,21px);line-height:1.42;max-width:70ch;margin-top:6px;overflow-wrap:anywhere}
.keys{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:14px 24px;margin:0;border-top:1px solid var(--line);padding-top:16px}
.keys dt{color:var(--soft);font-size:13px}.keys dd{margin:0;font-size:24px;font-weight:600;letter-spacing:-.015em;white-space:nowrap}
.keys dd small{display:block;font-size:12.5px;font-weight:400;color:var(--soft);letter-spacing:0;white-space:normal}
.legend{display:flex;flex-wrap:wrap;gap:3px 16px;font-size:13px;margin:10px 0 0;padding:0;list-style:none;color:var(--soft)}
.legend b{font-weight:600;color:var(--ink)}
.key{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px;vertical-align:-1px;background:var(--c)}
.key.unattributed{background:repeating-linear-gradient(45deg,var(--unattributed) 0 2px,transparent 2px 4px);border:1px solid var(--unattributed)}
svg{display:block;overflow:hidden}
.bar{width:100%;height:26px;border-radius:5px}
.wrap{overflow-x:auto;max-width:100%;border-radius:6px}
table{border-collapse:collapse;width:100%;font-size:13.5px}
caption{text-align:left;font-weight:600;padding:0 0 6px}
th,td{text-align:left;padding:6px 14px 6px 0;border-bottom:1px solid var(--line);vertical-align:baseline}
th{font-weight:600;color:var(--soft);font-size:12.5px;white-space:nowrap}
th.r,td.r{text-align:right;white-space:nowrap}
td.r+td:not(.r),th.r+th:not(.r){padding-left:10px}
tbody tr:last-child td,tbody tr:last-child th{border-bottom:0}
tfoot td{border-top:1px solid var(--line);border-bottom:0;font-weight:600}
th.r:last-child,td.r:last-child{padding-right:0}th:first-child,td:first-child{min-width:118px}
td.grow{min-width:150px}td.def{color:var(--soft);min-width:220px}
code,pre{font:12.5px/1.5 var(--mono)}
pre{margin:0 0 8px;padding:10px 12px;background:var(--track);border-radius:6px;overflow-x:auto}
.n{white-space:nowrap}
figure{margin:0 0 24px;min-width:0}figure:last-child{margin-bottom:0}.wrap+figure{margin-top:24px}.tools+.lanes{max-height:min(80vh,900px)}
figcaption{margin-bottom:8px;font-size:13.5px}figcaption b{color:var(--ink);font-size:15px;margin-right:8px}
.chart{position:relative;border-radius:6px;min-width:0}
:focus-visible{outline:2px solid var(--accent);outline-offset:3px}
.wf{display:grid;grid-template-columns:minmax(92px,15%) minmax(0,1fr);gap:3px 12px;align-items:center;font-size:12.5px}
.wf .who{color:var(--soft);text-align:right;line-height:1.2;overflow-wrap:anywhere}
.wf svg{width:100%;height:20px;background:var(--track);border-radius:3px}
.axis{position:relative;height:18px;font-size:11.5px;color:var(--soft);grid-column:2}
.axis span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.axis span:first-child{transform:none}.axis span:last-child{transform:translateX(-100%)}
.cols{display:grid;grid-template-columns:52px minmax(0,1fr);gap:4px 8px}
.cols svg{width:100%;height:240px}
.cols .y{position:relative;font-size:11.5px;color:var(--soft)}.cols .y span{position:absolute;right:0;transform:translateY(-50%);white-space:nowrap}
.on{stroke:var(--ink);stroke-width:2px}
#tip{position:fixed;z-index:9;pointer-events:none;max-width:min(340px,92vw);background:var(--ink);color:var(--card);padding:8px 11px;border-radius:6px;font-size:12.5px;line-height:1.45;white-space:pre-line;box-shadow:0 4px 18px #0004}
#tip[hidden]{display:none}
.tools{display:flex;flex-wrap:wrap;gap:6px;margin-bottom:10px;align-items:center;font-size:13px;color:var(--soft)}
button{font:inherit;font-size:13px;color:var(--ink);background:var(--card);border:1px solid var(--line);border-radius:6px;padding:3px 11px;min-height:30px;cursor:pointer}button:hover{border-color:var(--soft)}
.lanes{overflow-y:auto;touch-action:pan-y}
.lanes text{font-size:11.5px;fill:var(--soft)}.lanes .head{font-weight:600;fill:var(--ink)}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:24px}
.u-wrap{max-width:100%}.u-legend{font-size:12.5px!important;text-align:left!important;color:var(--ink)}.u-legend th{color:var(--ink);white-space:normal}.u-legend td,.u-legend th{border:0;padding:1px 4px}
.empty{color:var(--soft);border:1px dashed var(--line);border-radius:6px;padding:14px}
details{margin-top:8px}summary{cursor:pointer;font-size:13px;color:var(--accent)}details[open] summary{margin-bottom:8px}
footer{color:var(--soft);font-size:13px;padding-top:6px;padding-bottom:40px}
ul.plain{margin:0;padding-left:18px}ul.plain li{margin:4px 0;max-width:90ch;overflow-wrap:anywhere}
.vh{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
@media (max-width:560px){.wf{grid-template-columns:74px minmax(0,1fr);gap:3px 8px}.keys{grid-template-columns:1fr 1fr}.keys dd{font-size:20px}.wf .axis span:nth-child(even){display:none}.wrap table{min-width:500px}td code{display:none}td .key{margin-right:5px}.wrap:has(.def) td:first-child{min-width:104px}}
@media print{:root{color-scheme:light;--bg:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#ccc;--track:#f1f2f4}body{font-size:11px}
nav,.tools,#tip{display:none}section{border:0;padding:0;border-radius:0;break-inside:auto}figure,tr,.wf{break-inside:avoid}.wrap,.lanes,.tools+.lanes{overflow:visible;max-height:none}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
`
