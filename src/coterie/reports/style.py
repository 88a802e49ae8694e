"""How the page looks: colours by name, once for light and once for dark, and the style sheet that uses them."""

from __future__ import annotations

LIGHT = {
    "page": "#f4f6f8",
    "card": "#ffffff",
    "ink": "#1b2330",
    "soft": "#566171",  # text that is read second
    "line": "#d7dde4",
    "track": "#e8ecf0",
    "joint": "#1b6ca8",
    "floor": "#ad4a14",
    "ceiling": "#24734c",
    "claimed": "#5f6b7a",
    "alarm": "#b3321b",
    "oracle": "#6f3fa0",
}
DARK = {
    "page": "#11151b",
    "card": "#1a2029",
    "ink": "#e9edf3",
    "soft": "#a9b4c2",
    "line": "#36404d",
    "track": "#2a323d",
    "joint": "#6ab4ee",
    "floor": "#f2a06a",
    "ceiling": "#6fcf9f",
    "claimed": "#a3afbd",
    "alarm": "#ff8f78",
    "oracle": "#c9a4f0",
}
CLASSES = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#ff9da7")
OTHER = "#8a94a0"  # of classes beyond those


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
main{max-width:68rem;margin:0 auto;padding:1.5rem 1.25rem 3rem}
h1{font-size:1.05rem;font-weight:600;color:var(--soft);margin:0 0 .4rem}
h2{font-size:1.1rem;line-height:1.3;margin:0 0 .6rem}
p{margin:.4rem 0}
a{color:var(--joint)}
.lead{font-size:1.45rem;line-height:1.4;margin:0 0 .8rem;max-width:52rem;text-wrap:pretty}
.lead b,.lead span{white-space:nowrap}
.inshort{border-left:4px solid var(--joint);padding:.1rem 0 .1rem .8rem;margin:.8rem 0;max-width:52rem}
.printed{display:none}
.soft,figcaption,caption{color:var(--soft);font-size:.9rem;text-align:left}
.grid{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:1rem;margin-top:1rem}
section{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:1.1rem 1.2rem;min-width:0}
.wide{grid-column:1/-1}
figure{margin:0}
figcaption{margin-top:.6rem}
.verdict{font-weight:600}
.good{color:var(--ceiling)}
.alarm{color:var(--alarm)}
.oracle{color:var(--oracle);border:1px solid;border-radius:.3rem;font-size:.72rem;line-height:1.3;padding:0 .3em;
font-weight:600;font-style:normal;white-space:nowrap;vertical-align:.12em}
figure+table{margin-top:.9rem}
table{border-collapse:collapse;width:100%;font-size:.95rem}
th,td{text-align:left;vertical-align:top;padding:.4rem .7rem .4rem 0;border-top:1px solid var(--line)}
thead th,thead td{border-top:0}
th[scope=row]{font-weight:400;color:var(--soft)}
.columns{table-layout:fixed}
.columns thead td{width:6.5rem}
.columns .big{font-size:1.35rem;font-weight:650;line-height:1.25}
dl{margin:0;font-size:.95rem}
dl div{display:grid;grid-template-columns:10.5rem minmax(0,1fr);gap:0 1rem;padding:.18rem 0}
dt{color:var(--soft)}
dd{margin:0;min-width:0}
code{font-family:ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;font-size:.85em}
.plot{position:relative;margin:.9rem .6rem 2.9rem 3.4rem}
.plot svg{display:block;width:100%;height:100%;overflow:visible}
.plot span{position:absolute;font-size:.78rem;line-height:1;color:var(--soft);white-space:nowrap}
.plot .y{right:100%;margin-right:.45rem;transform:translateY(50%)}
.plot .x{top:100%;margin-top:.45rem;transform:translateX(-50%)}
.plot .axis{top:100%;margin-top:1.7rem;right:0}
.curve{height:19rem}
.benefit,.over{height:16rem}
.stacks{height:13rem}
.stacks.one{max-width:10rem}
svg{fill:none}
svg *{vector-effect:non-scaling-stroke}
.rule{stroke:var(--line);stroke-width:1}
.band{fill:var(--joint);opacity:.18}
.mean{stroke:var(--joint);stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round}
.own{stroke:var(--floor);stroke-width:9;stroke-linecap:round}
.own.gains{stroke:var(--ceiling)}
.crowded .own{stroke-width:6;opacity:.75}
.gain td:last-child{font-weight:600;white-space:nowrap}
.link{stroke:var(--line);stroke-width:1}
.floor{stroke:var(--floor);stroke-width:2;stroke-dasharray:7 5}
.ceiling{stroke:var(--ceiling);stroke-width:2;stroke-dasharray:2 4;stroke-linecap:round}
.constant{stroke:var(--soft);stroke-width:1.5;stroke-dasharray:10 3 2 3}
.dots{stroke-width:7;stroke-linecap:round;stroke-dasharray:none}
.key{display:flex;flex-wrap:wrap;gap:.3rem 1.3rem;list-style:none;margin:0;padding:0;font-size:.92rem}
.key li{display:flex;align-items:center;gap:.45rem;min-width:0}
.key svg{width:1.8rem;height:.8rem;flex:none}
.key i{width:.85rem;height:.85rem;border-radius:.15rem;flex:none}
.bars,.gauges{list-style:none;margin:0;padding:0}
.bars{display:grid;gap:.75rem}
.gauges{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(19rem,100%),1fr));gap:.7rem 1.6rem}
.bars div,.gauges div{display:flex;justify-content:space-between;gap:.8rem;font-size:.92rem;line-height:1.35}
.bars div>span:last-child,.gauges div>span:last-child{white-space:nowrap;font-weight:600}
.gauges li{display:flex;flex-direction:column;justify-content:flex-end}
.gauges div>span:first-child{min-width:0}
.names{columns:3 14rem;list-style:none;margin:0;padding:0;font-size:.92rem}
.no{color:var(--soft);display:inline-block;min-width:1.6em}
.track{display:block;position:relative;height:.6rem;border-radius:.3rem;background:var(--track);overflow:hidden;
margin-top:.2rem}
.bars .track{height:1rem}
.track b{display:block;height:100%;background:var(--joint)}
.track b.claimed{background:var(--claimed)}
.track b.audited{background:var(--floor)}
.track b.above{background:var(--alarm)}
.track b.endless{background:repeating-linear-gradient(115deg,var(--alarm) 0 .5rem,var(--track) .5rem .75rem)}
.track u{position:absolute;top:0;bottom:0;width:3px;margin-left:-3px;background:var(--ink)}
details{margin-top:.9rem}
summary{cursor:pointer;color:var(--joint)}
details[open] summary{margin-bottom:.7rem}
.network{display:block;width:100%;max-width:25rem;margin:0 auto;height:auto}
.network.large{max-width:46rem}
.network line{stroke:var(--soft);stroke-width:1.2;opacity:.55}
.network.dense line{stroke-width:.7;opacity:.3}
.network circle{fill:var(--joint);stroke:var(--card);stroke-width:1.5}
.network .hub{fill:var(--card);stroke:var(--ink);stroke-width:1.5}
.network text{font-size:11px;fill:var(--ink);text-anchor:middle;dominant-baseline:central}
.network .inside{fill:var(--card);font-weight:600}
footer{margin-top:1.2rem}
@media (max-width:44rem){
body{font-size:15px}
main{padding:1rem .75rem 2rem}
.grid{grid-template-columns:minmax(0,1fr);gap:.75rem}
section{padding:.9rem .9rem}
.lead{font-size:1.2rem}
.plot{margin-left:2.9rem}
.curve{height:15rem}
dl div{grid-template-columns:minmax(0,1fr);padding:.25rem 0}
dl.short div{grid-template-columns:minmax(0,2fr) minmax(0,3fr);padding:.1rem 0}
.columns thead,.columns tbody{display:block}
.columns tr{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:0 .6rem;border-top:1px solid var(--line);
padding:.4rem 0}
.columns thead tr{border-top:0}
.columns thead td{display:none}
.columns th,.columns td{border:0;padding:0;font-size:.88rem}
.columns th[scope=row]{grid-column:1/-1;width:auto;font-size:.8rem}
.columns .big{font-size:1.1rem}
}
@media print{
@page{margin:14mm}
body{background:#fff;font-size:10.5pt}
main{max-width:none;padding:0}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.grid{display:block}
section{break-inside:avoid;border-color:#bbb;margin-bottom:.8rem;display:inline-block;width:49%;vertical-align:top}
section.wide,section.long{display:block;width:auto}
section.long{break-inside:auto}
section.long li,dl div,tr{break-inside:avoid}
.gauges{display:block;columns:2}
.gauges li{padding-bottom:.5rem}
h2{break-after:avoid}
details::details-content{content-visibility:visible;display:block}
.lead{font-size:14pt}
.curve{height:10.5rem}
.benefit,.over{height:9rem}
dl.short{columns:2}
.key{gap:.1rem 1rem}
.stacks{height:10rem}
}
@media print{
@page board{size:A4;margin:12mm}
html.sheet{font-size:8.5pt}
.sheet body{page:board;font-size:1rem;line-height:1.4}
.sheet section,.sheet details{display:none}
.sheet section.board{display:block;width:auto;border:0;border-top:1px solid #bbb;border-radius:0;margin:0;
padding:.5rem 0 .3rem;break-inside:avoid}
.sheet .grid{margin-top:.6rem}
.sheet .printed{display:block}
.sheet h2{font-size:1.15rem;margin:0 0 .2rem}
.sheet .lead{font-size:1.3rem;max-width:none}
.sheet .inshort{max-width:none}
.sheet .curve{height:10rem}
.sheet .benefit{height:10rem}
.sheet .gauges{columns:3}
.sheet .gauges li{padding-bottom:.3rem}
.sheet .gauges li:nth-child(n+16){display:none}
.sheet .gauges div>span:first-child{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.sheet th,.sheet td{padding:.12rem .7rem .12rem 0}
}
"""

COLOURS = (
    f":root{{color-scheme:light dark;{_variables(LIGHT)}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
)
SHEET = COLOURS + _RULES.replace("\n", " ").strip()
