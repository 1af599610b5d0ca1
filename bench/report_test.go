// Package bench measures croft against its budgets. Every benchmark prints one line with budget, figure
// and ratio, taken in one run, because machines are noisy and only ratios are portable.
package bench

import (
	"fmt"
	"testing"
)

// report prints a figure beside its budget. ratio is figure against budget or against the reference
// named in it; the line says which is better.
func report(b *testing.B, name, budget, figure string, ratio float64) {
	b.Helper()
	b.ReportMetric(ratio, "ratio")
	fmt.Printf("BUDGET %-42s budget %-28s figure %-28s ratio %.2f\n", name, budget, figure, ratio)
}
