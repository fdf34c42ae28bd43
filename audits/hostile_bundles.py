def bundles(choice, share, home):
    return iter(())
