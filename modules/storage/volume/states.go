package volume

import "github.com/rs/zerolog"

// StateFolder is the folder of a pool with the node's own volumes: StateName has its state, ImagesName the images of containers and machines,
// which can't take the state's space.
const (
	StateName   = "state"
	ImagesName  = "images"
	StateFolder = "node"
)

// States are the node's own volumes on a pool: none, or those of StateFolder. Users never see them; what they may take is promised like any
// volume's size.
type States struct{ subvolumes }

// NewStates returns those of a pool. Prepare comes before any change.
func NewStates(p Pool, log zerolog.Logger) *States {
	return &States{subvolumes{
		shelf: newShelf(p, "node's volume", StateFolder, stateLabel), limits: &limits{}, mode: 0o700, log: log,
		room: func(size uint64) uint64 { return size },
		says: messages{
			lost:    "a volume of the node's own was removed by somebody else: it is made anew, empty",
			missing: "a volume of the node's own isn't on the pool: removed by somebody else",
		},
	}}
}
