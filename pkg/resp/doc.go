// Package resp reads requests and writes replies of the Redis protocol,
// version 2, as 0-db speaks it: requests are arrays of bulk strings and nothing
// else, replies are appended to a byte slice. It knows no connection and no
// command.
package resp
