package project

import (
	"maps"
	"slices"
	"strings"
)

// PlainSecrets are the names in a container's env that look like those of secrets:
// everybody with access to the explorer can read their values.
func (w *Workload) PlainSecrets() []string {
	env, _ := w.body.data["env"].(map[string]any)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		upper := strings.ToUpper(name)
		for _, word := range []string{"PASSWORD", "PASSWD", "SECRET", "TOKEN", "PRIVATE_KEY", "API_KEY", "APIKEY", "CREDENTIAL"} {
			if strings.Contains(upper, word) {
				out = append(out, name)
				break
			}
		}
	}
	return out
}
