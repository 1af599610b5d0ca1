package changes

import (
	"strings"

	"github.com/croft-edge/croft/pkg/workload"
)

// OwnerOf is the ID of the reservation that an object of that name belongs to: the name
// itself, or what is before its first dot, as in "5-1.layer". Empty when it is no ID.
func OwnerOf(name string) string {
	id, _, _ := strings.Cut(name, ".")
	if !workload.IsID(id) {
		return ""
	}
	return id
}
