# gain.gp - gain against sigma/D for every operator, and below it the corner of the clips near D.
# `docs/plots/draw` runs it with
#   table  the output of gain_table.c
#   plot   the file to write, .svg or .png
# The colours are those of Okabe and Ito, which colour-blind readers can tell apart.

if (plot[strlen(plot) - 3:] eq ".png") {
    set terminal pngcairo size 900, 920 font "sans,12" background rgb "white"
} else {
    set terminal svg size 900, 920 fixed font "sans-serif,14" background rgb "white" name "gain"
}
set output plot
set multiplot

set logscale xy
set xrange [1e-3:30]
set yrange [0.03:10]
set xtics ("0.001" 0.001, "0.01" 0.01, "0.1" 0.1, "1" 1, "3" 3, "10" 10, "30" 30)
set ytics ("0.03" 0.03, "0.1" 0.1, "0.3" 0.3, "1" 1, "3" 3, "10" 10)
set grid xtics ytics back linecolor rgb "#dddddd" linetype 1 linewidth 1
set border 3 linecolor rgb "#444444"
set tics nomirror textcolor rgb "#222222"
set xlabel "σ / D: singular value over threshold"
set ylabel "gain: singular value out / in"
set lmargin at screen 0.09
set rmargin at screen 0.97
set tmargin at screen 0.98
set bmargin at screen 0.47
set key at graph 0.02, graph 0.98 left top vertical maxrows 5 Left reverse noenhanced \
    samplen 3 spacing 1.2 width 1

plot table index 0 using 1:9 with lines linewidth 2 dashtype 4 linecolor rgb "#009E73" title "D polar (Muon)", \
     table index 0 using 1:2 with lines linewidth 2 dashtype 2 linecolor rgb "#000000" title "hard", \
     table index 0 using 1:3 with lines linewidth 6 linecolor rgb "#56B4E9" title "soft", \
     table index 0 using 1:8 with lines linewidth 2 dashtype 3 linecolor rgb "#000000" title "accurate", \
     table index 0 using 1:7 with lines linewidth 3 linecolor rgb "#0072B2" title "fast", \
     table index 0 using 1:10 with lines linewidth 3 dashtype 3 linecolor rgb "#0072B2" title "hard-fast", \
     table index 0 using 1:6 with lines linewidth 2 linecolor rgb "#CC79A7" title "ssc, K = 7", \
     table index 0 using 1:5 with lines linewidth 3 linecolor rgb "#D55E00" title "ssc, K = 5", \
     table index 0 using 1:4 with lines linewidth 2 linecolor rgb "#E69F00" title "ssc, K = 3"

unset logscale
set xrange [0:3]
set yrange [0:1.1]
unset xtics
unset ytics
set xtics 0, 0.5, 3 nomirror textcolor rgb "#222222"
set ytics 0, 0.2, 1 nomirror textcolor rgb "#222222"
set tmargin at screen 0.38
set bmargin at screen 0.07
set ylabel "result over D"
set key at graph 0.98, graph 0.06 right bottom maxrows 5

plot table index 1 using 1:($1*$2) with lines linewidth 2 dashtype 2 linecolor rgb "#000000" title "hard", \
     table index 1 using 1:($1*$10) with lines linewidth 3 dashtype 3 linecolor rgb "#0072B2" title "hard-fast", \
     table index 1 using 1:($1*$12) with lines linewidth 2 linecolor rgb "#CC79A7" title "sharp, p = 8", \
     table index 1 using 1:($1*$11) with lines linewidth 2 linecolor rgb "#D55E00" title "sharp, p = 4", \
     table index 1 using 1:($1*$3) with lines linewidth 5 linecolor rgb "#56B4E9" title "soft"
unset multiplot
