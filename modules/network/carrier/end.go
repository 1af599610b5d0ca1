package carrier

import "context"

// End ends the carrier of a run folder, if there is one. Its links stay.
func End(ctx context.Context, runDir string) error {
	client, err := find(ctx, folderOf(runDir))
	if err != nil || client == nil {
		return err
	}
	defer client.Close()
	return client.Stop(ctx)
}
