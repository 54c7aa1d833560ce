# gain.gp - gain against sigma/D for every operator.  `docs/plots/draw` runs it with
#   table  the output of gain_table.c
#   plot   the file to write, .svg or .png
# The colours are those of Okabe and Ito, which colour-blind readers can tell apart.

if (plot[strlen(plot) - 3:] eq ".png") {
    set terminal pngcairo size 900, 560 font "sans,12" background rgb "white"
} else {
    set terminal svg size 900, 560 fixed font "sans-serif,14" background rgb "white" name "gain"
}
set output plot

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
set key at graph 0.02, graph 0.98 left top vertical maxrows 4 Left reverse noenhanced \
    samplen 3 spacing 1.2 width 1

plot table using 1:9 with lines linewidth 2 dashtype 4 linecolor rgb "#009E73" title "D polar (Muon)", \
     table using 1:2 with lines linewidth 2 dashtype 2 linecolor rgb "#000000" title "hard", \
     table using 1:3 with lines linewidth 6 linecolor rgb "#56B4E9" title "soft", \
     table using 1:8 with lines linewidth 2 dashtype 3 linecolor rgb "#000000" title "accurate", \
     table using 1:7 with lines linewidth 3 linecolor rgb "#0072B2" title "fast", \
     table using 1:6 with lines linewidth 2 linecolor rgb "#CC79A7" title "ssc, K = 7", \
     table using 1:5 with lines linewidth 3 linecolor rgb "#D55E00" title "ssc, K = 5", \
     table using 1:4 with lines linewidth 2 linecolor rgb "#E69F00" title "ssc, K = 3"
