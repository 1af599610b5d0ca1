package project_test

import (
	"slices"
	"testing"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

func TestPlainSecretsAreNamed(t *testing.T) {
	f, err := project.Parse("croft.yaml", withNodes(t, `project: p
node: NODE1
duration: 1d
workloads:
  a:
    container:
      flist: docker://example.org/a
      capacity: {cpu: 1, memory: 64}
      network: {network_id: n, ips: [10.0.0.2]}
      env: {LANGUAGE: en, DB_PASSWORD: x, api_token: y, KEYBOARD: z}
  b:
    volume: {size: 1, type: SSD}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range f.Workloads {
		want := []string{"DB_PASSWORD", "api_token"}
		if w.Name == "b" {
			want = nil
		}
		if got := w.PlainSecrets(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", w.Name, got, want)
		}
	}
}
