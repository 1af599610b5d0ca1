// Package resp reads requests and writes replies of the Redis protocol,
// version 2, for the zdb server and the bus's broker: requests are arrays of bulk
// strings and nothing else, replies are appended to a byte slice. It checks replies
// before a client reads them. Its users set the limits. It knows no command.
package resp
